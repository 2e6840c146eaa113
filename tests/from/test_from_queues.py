"""What docs/from says of plain queues, keys, limits and stores."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis.asyncio
from places import STORES, place
from support import burst, eventually, working

from holdfast import ConfigError, Holdfast, Job, PayloadError, Rate, Retry, UnknownScheme
from holdfast.testing import drain


async def test_a_plain_queue_takes_any_json_for_a_handler_by_path(app: Holdfast) -> None:
    photos = app.queue("photos", handler="from_handlers:double")
    async with app:
        await photos.enqueue({"width": 2}, job_id="p")
        assert [(ran.id, ran.task, ran.result) for ran in await drain(app)] == [("p", None, {"width": 4})]


async def test_a_plain_queue_may_have_a_fail_handler(app: Holdfast) -> None:
    @app.task(queue="q-fail")
    async def sorry(job: Job, payload: dict[str, int]) -> list[object]:
        assert job.failed is not None
        return [payload, job.failed.queue, job.failed.error.type]

    queue = app.queue("q", handler="from_handlers:refuse", retry=Retry(failures=1), on_failure=sorry)
    async with app:
        await queue.enqueue({"a": 1})
        failed, told = await drain(app)
    assert (failed.outcome, told.result) == ("failed", [{"a": 1}, "q", "ValueError"])


@dataclass
class Order:
    """What a typed queue takes."""

    id: int


async def test_a_plain_queue_may_be_typed(app: Holdfast) -> None:
    async def pack(order: Order) -> int:
        return order.id

    queue = app.queue("orders", handler=pack, payload=Order, result=int)
    async with app:
        await queue.enqueue(Order(7))
        with pytest.raises(PayloadError):
            await queue.enqueue({"id": "seven"})
        assert [ran.result for ran in await drain(app)] == [7]


async def test_many_ids_are_looked_up_in_one_call(app: Holdfast) -> None:
    async with app:
        for id in "abc":
            await app.queue("q").enqueue(1, job_id=id)
        assert [job.id for job in (await app.jobs(ids=["c", "x", "a"])).jobs] == ["c", "a"]


def test_a_queue_has_defaults_for_its_tasks(app: Holdfast) -> None:
    app.queue("mail", retry=Retry(failures=7), timeout=60, result_ttl=90)

    @app.task(queue="mail")
    async def follows() -> None: ...

    @app.task(queue="mail", timeout=5)
    async def differs() -> None: ...

    assert (follows.setting("retry").failures, follows.setting("timeout"), differs.setting("timeout")) == (7, 60, 5)


async def test_an_option_of_one_job_is_above_its_task(app: Holdfast) -> None:
    @app.task(priority=1)
    async def work(job: Job) -> int:
        return job.priority

    async with app:
        await work.enqueue()
        await work.options(priority=9).enqueue()
        assert [ran.result for ran in await drain(app)] == [9, 1]
    for outside in (-1001, 1001):
        with pytest.raises(ConfigError):
            work.options(priority=outside)


async def test_jobs_without_priority_run_in_the_order_of_arrival(app: Holdfast) -> None:
    @app.task()
    async def work(job: Job) -> None: ...

    async with app:
        for id in "cab":
            await work.options(job_id=id).enqueue()
        assert [ran.id for ran in await drain(app)] == ["c", "a", "b"]


async def test_a_queue_of_higher_priority_is_served_first(app: Holdfast) -> None:
    app.queue("late", priority=-1)
    app.queue("early", priority=1)

    @app.task(queue="late")
    async def late() -> None: ...

    @app.task(queue="early")
    async def early() -> None: ...

    async with app:
        await late.enqueue()
        await early.enqueue()
        assert [ran.queue for ran in await drain(app)] == ["early", "late"]


async def test_keys_take_turns(app: Holdfast) -> None:
    @app.task()
    async def work(job: Job) -> None: ...

    async with app:
        for key, count in (("big", 3), ("small", 1)):
            for number in range(count):
                await work.options(key=key, job_id=f"{key}-{number}").enqueue()
        assert [ran.id for ran in await drain(app)] == ["big-0", "small-0", "big-1", "big-2"]


async def most_at_once(app: Holdfast, keys: list[str | None], at_least: int) -> int:
    """Return how many jobs with these keys ran at once in a worker with room for all; it waits for that many."""
    now, most = 0, 0
    gate = asyncio.Event()

    @app.task(queue="q")
    async def work() -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await gate.wait()
        now -= 1

    async with app:
        handles = [await work.options(key=key).enqueue() for key in keys]
        async with working(app):
            await eventually(lambda: now >= at_least)
            gate.set()
            for handle in handles:
                await handle.result()
    return most


async def test_key_concurrency_limits_each_key_over_all_workers(app: Holdfast) -> None:
    app.queue("q", key_concurrency=1)
    assert await most_at_once(app, ["a", "a", "a"], 1) == 1


async def test_a_job_without_a_key_escapes_key_concurrency(app: Holdfast) -> None:
    app.queue("q", key_concurrency=1)
    assert await most_at_once(app, [None, None, None], 3) == 3


@pytest.mark.parametrize("declared", ["queue", "task"])
async def test_a_queue_may_require_keys(app: Holdfast, declared: str) -> None:
    app.queue("q", key_required=True if declared == "queue" else None)

    @app.task(queue="q", key_required=True if declared == "task" else None)
    async def work() -> None: ...

    async with app:
        with pytest.raises(ConfigError, match="key"):
            await work.enqueue()
        assert (await work.options(key="a").enqueue()).status == "queued"


async def test_concurrency_limits_a_queue_over_all_workers(app: Holdfast) -> None:
    app.queue("q", concurrency=2)
    assert await most_at_once(app, ["a", "b", "c", None], 2) == 2


@pytest.mark.parametrize("live", [False, True])
async def test_one_key_may_have_a_limit_of_its_own(app: Holdfast, live: bool) -> None:
    app.queue("q", key_concurrency=1, key_limits={"a": 3 if live else 2})
    async with app:
        if live:
            await app.queue("q").limit_key("a", 2)
        assert await most_at_once(app, ["a", "a", "a", "a"], 2) == 2


async def test_a_rate_counts_starts(app: Holdfast) -> None:
    app.queue("q", rate=Rate(2, per=60))

    @app.task(queue="q")
    async def work() -> None: ...

    async with app:
        for _ in range(3):
            await work.enqueue()
        assert len(await drain(app)) == 2


async def test_a_task_with_a_rate_has_a_queue_of_its_own(app: Holdfast) -> None:
    @app.task(rate=Rate(1, per=60))
    async def fetch() -> None: ...

    @app.task()
    async def work() -> None: ...

    async with app:
        for task in (fetch, fetch, work):
            await task.enqueue()
        assert sorted(ran.task or "" for ran in await drain(app)) == ["fetch", "work"]
    assert (fetch.queue, work.queue) == ("fetch", "default")


async def test_settings_change_while_jobs_wait(app: Holdfast) -> None:
    @app.task(queue="q")
    async def work() -> None: ...

    async with app:
        await work.enqueue()
        await app.queue("q").pause()
        assert await drain(app) == []
        await app.queue("q").resume()
        assert len(await drain(app)) == 1


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "redis"])
async def test_a_namespace_keeps_two_apps_apart(kind: str, tmp_path: Path) -> None:
    with place(kind, tmp_path) as url, place(kind, tmp_path) as other:
        mine, theirs = Holdfast(url), Holdfast(other)
        async with mine, theirs:
            await mine.queue("q").enqueue(1, job_id="a")
            assert [job.id for job in (await mine.jobs()).jobs] == ["a"]
            assert (await theirs.jobs()).jobs == []


def test_a_url_chooses_the_store(tmp_path: Path) -> None:
    assert Holdfast("memory://").store.url.startswith("memory://")
    assert Holdfast(f"sqlite:///{tmp_path}/jobs.db").store.shared
    with pytest.raises(UnknownScheme):
        Holdfast("carrier-pigeon://")


async def test_a_redis_client_may_stand_in_the_place_of_a_url(tmp_path: Path) -> None:
    with place("redis", tmp_path) as url:
        client = redis.asyncio.from_url(url.partition("?")[0])
        app = Holdfast(client)
        async with app:
            name = f"client-{os.urandom(6).hex()}"
            await app.queue(name).enqueue(1, job_id="a")
            assert (await app.queue(name).status("a")).state == "waiting"
            assert await app.queue(name).delete("a")
        assert await client.ping()
        await client.aclose()


@pytest.mark.parametrize("kind", STORES)
async def test_every_store_gives_the_same_answers(kind: str, tmp_path: Path) -> None:
    with place(kind, tmp_path) as url:
        app = Holdfast(url)

        @app.task()
        async def work(number: int) -> int:
            return number

        once = work.options(job_id="a")
        async with app:
            told = [(await once.enqueue(1)).status, (await once.enqueue(2)).status]
            told.append((await once.options(on_conflict="update").enqueue(3)).status)
            await burst(app)
            told.append((await once.enqueue(4)).status)
            assert await once.result("a") == 3
    assert told == ["queued", "duplicate", "updated", "completed"]


@pytest.mark.parametrize("kind", ["memory", "redis"])
async def test_a_store_without_transactions_refuses_your_connection(kind: str, tmp_path: Path) -> None:
    import sqlite3

    with place(kind, tmp_path) as url:
        app = Holdfast(url)
        async with app:
            connection = sqlite3.connect(":memory:")
            with pytest.raises(ConfigError):
                await app.queue("q").enqueue(1, connection=connection)
            connection.close()


async def test_a_job_joins_your_transaction(tmp_path: Path) -> None:
    import sqlite3

    app = Holdfast(f"sqlite:///{tmp_path}/jobs.db")
    async with app:
        connection = sqlite3.connect(tmp_path / "jobs.db")
        await app.queue("q").enqueue(1, connection=connection)
        connection.rollback()
        assert (await app.jobs()).jobs == []
        await app.queue("q").enqueue(1, connection=connection)
        connection.commit()
        assert len((await app.jobs()).jobs) == 1
        connection.close()


async def test_memory_is_one_process_and_one_app(app: Holdfast) -> None:
    assert not app.store.shared
    other = Holdfast("memory://")
    async with app, other:
        await app.queue("q").enqueue(os.getpid(), job_id="a")
        assert (await other.jobs()).jobs == []
