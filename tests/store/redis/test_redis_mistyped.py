"""Redis keys that somebody else gave another type: set aside and told of once, and no queue stands still."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from contextlib import closing

import pytest
from servers import shared, valkey_binary
from support import eventually, working

from holdfast import Holdfast, HookEvent, StoreCorrupt, StoreError, Task
from holdfast.client import new_id
from holdfast.store.contract import Filter, Session
from holdfast.store.redis import RedisStore
from holdfast.store.redis.keys import ENDINGS, Keys
from holdfast.store.scan import ScanPlan, open_scan

NAMES = [name for name in ENDINGS if name != "mistyped"]


def url(name: str) -> str:
    binary = valkey_binary()
    assert binary is not None
    return f"{shared(binary).url}?namespace=mistyped{os.getpid()}{name}"


class Spoiler:
    """Writes over keys of a queue."""

    def __init__(self, app: Holdfast) -> None:
        assert isinstance(app.store, RedisStore)
        self._server = app.store.server
        self._keys = Keys(app.store.address.namespace)

    async def spoil(self, queue: str, name: str) -> None:
        key = self._keys.of(queue, name) + ("k" if name == "lane" else "")
        await self._server.ask(["SET", key, "x"], key)

    async def begin(self, queue: str) -> None:
        """The keys are set aside, and whoever did that ended before it came to the records."""
        key = self._keys.declared(queue)
        await self._server.ask(["DEL", self._keys.of(queue, "waiting")], key)
        await self._server.ask(["HSET", key, "mistyped", 1], key)

    async def clear(self, queue: str) -> None:
        key = self._keys.declared(queue)
        aside = [self._keys.of(queue, "mistyped") + name for name in NAMES]
        own = [self._keys.of(queue, name) for name in NAMES]
        await self._server.ask(["UNLINK", *aside, *own, self._keys.of(queue, "lane") + "k"], key)


@pytest.mark.parametrize("name", NAMES)
async def test_no_call_of_the_store_fails_twice_and_no_other_queue_is_hidden(name: str) -> None:
    app = Holdfast(url(name))
    async with app:
        for queue in ("sick", "well"):
            for key in (None, "k"):
                await app.queue(queue).enqueue(1, job_id=f"j{key}", key=key)
            await app.queue(queue).enqueue(1, job_id="later", delay=3600)
            await app.store.configure(queue, {"key_concurrency": 2})
        spoiler = Spoiler(app)
        await spoiler.spoil("sick", name)
        assert "well" in {info.name for info in await app.queues()}
        assert {job.id for job in (await app.store.jobs(Filter(queue="well"))).jobs} == {"jNone", "jk", "later"}
        assert len((await app.store.jobs(Filter())).jobs) >= 3
        for call in (app.workers, app.store.events, app.store.schedules, lambda: app.store.pending(["sick", "well"])):
            assert await call() is not None  # type: ignore[operator]
        await app.store.reap("sick")
        await app.store.expire("sick")
        shown = " ".join(found.detail for found in await app.store.doctor())
        assert await _unless_lost(app, "sick", f"after {name}")
        assert f"key sick/{name}" in shown
        left = set() if name == "jobs" else {"jNone", "jk"}
        assert await _claimed(app, "sick") == left | {f"after {name}"}
        await spoiler.clear("sick")
        await spoiler.clear("well")


async def _claimed(app: Holdfast, queue: str) -> set[str]:
    session = Session(id=new_id(), name="w", host="-", pid=0, queues=(queue,))
    await app.store.register(session)
    turn = await app.store.settle_and_claim(session, (), (queue,), 10)
    return {job.lease.id for job in turn.claimed}


async def _unless_lost(app: Holdfast, queue: str, id: str) -> bool:
    """An enqueue that was cut short in the middle says so, and is made again."""
    try:
        await app.queue(queue).enqueue(1, job_id=id)
    except StoreError:
        await app.queue(queue).enqueue(1, job_id=id)
    return await app.status(queue, id) is not None


async def test_a_worker_serves_every_queue_whatever_key_was_written_over(caplog: pytest.LogCaptureFixture) -> None:
    app = Holdfast(url("worker"))
    told: list[HookEvent] = []
    app.on("worker_error")(told.append)
    ran: Counter[str] = Counter()

    @app.task(queue="sick")
    async def sick(id: str) -> None:
        ran[id] += 1

    @app.task(queue="well")
    async def well(id: str) -> None:
        ran[id] += 1

    caplog.set_level(logging.ERROR)
    async with working(app, lease=2) as running:
        spoiler = Spoiler(app)
        for name in NAMES:
            await sick.options(job_id=f"before-{name}", delay=3600).enqueue(f"before-{name}")
            await spoiler.spoil("sick", name)
            await well.enqueue(f"well-{name}")
            await eventually(lambda name=name: ran[f"well-{name}"], f"{name}: the other queue is served")
            await _enqueued(sick, f"sick-{name}")
            await eventually(lambda name=name: ran[f"sick-{name}"], f"{name}: the queue itself is served again")
        assert not running.task.done()
        await eventually(lambda: {*_told(caplog)} >= {"waiting", "scheduled", "jobs"}, "it is logged")
        logged = Counter(_told(caplog))
        assert set(logged.values()) == {1}, "each once"
        hooked = [each.id for each in told if each.detail.startswith("CorruptRecord: key: ")]
        assert sorted(hooked) == sorted(logged)
        await spoiler.clear("sick")
        await spoiler.clear("well")


async def _enqueued(task: Task[[str], None], id: str) -> None:
    """An enqueue that was cut short in the middle says so; with an id of the caller's it may be made again."""
    try:
        await task.options(job_id=id).enqueue(id)
    except StoreError:
        await task.options(job_id=id).enqueue(id)


def _told(caplog: pytest.LogCaptureFixture) -> list[str]:
    lines = [record.getMessage() for record in caplog.records]
    return [line.split("sick/")[1].split()[0] for line in lines if line.startswith("corrupt_record: key sick/")]


async def test_a_scan_of_such_a_queue_says_what_to_do() -> None:
    app = Holdfast(url("scan"))
    async with app:
        await app.queue("sick").enqueue(1)
        spoiler = Spoiler(app)
        await spoiler.spoil("sick", "jobs")
        plan = ScanPlan(table="jobs", columns=("id",))
        with closing(open_scan(url("scan"))) as scan:
            with pytest.raises(StoreCorrupt, match=r"wrote over .*sick}:jobs; holdfast doctor sets it aside"):
                scan.plan(plan)
            await app.store.doctor()
            assert [page for part in scan.plan(plan) for page in scan.read(plan, part)] == []
        await spoiler.clear("sick")


async def test_a_lane_is_set_aside_though_the_list_of_lanes_is_lost_too() -> None:
    app = Holdfast(url("lane"))
    async with app:
        await app.queue("sick").enqueue(1, job_id="plain")
        await app.queue("sick").enqueue(1, job_id="keyed", key="k")
        spoiler = Spoiler(app)
        for name in ("lane", "lanes"):
            await spoiler.spoil("sick", name)
        await app.store.doctor()
        assert await _claimed(app, "sick") == {"plain", "keyed"}
        assert {each.id for each in (await app.store.reap("sick")).corrupt} == {"lane:k", "lanes"}
        await spoiler.clear("sick")


async def test_two_that_meet_the_same_key_both_go_on() -> None:
    app, other = Holdfast(url("two")), Holdfast(url("two"))
    async with app, other:
        await app.queue("sick").enqueue(1, job_id="j")
        spoiler = Spoiler(app)
        await spoiler.spoil("sick", "waiting")
        found = await asyncio.gather(*(each.queues() for each in (app, other) for _ in range(5)))
        assert {info.counts["waiting"] for infos in found for info in infos} == {1}
        await spoiler.clear("sick")


async def test_a_queue_that_was_half_put_together_is_finished_by_the_doctor() -> None:
    app = Holdfast(url("half"))
    async with app:
        for number in range(3):
            await app.queue("sick").enqueue(1, job_id=f"j{number}")
        spoiler = Spoiler(app)
        await spoiler.spoil("sick", "waiting")
        await spoiler.begin("sick")
        await app.store.doctor()
        assert await _claimed(app, "sick") == {"j0", "j1", "j2"}
        await spoiler.clear("sick")
