"""What operators look at, by Python and on the command line: filters, counts, keys, runs, who waits, and layers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cli_shop import Shop, in_shop
from support import burst

from holdfast import ConfigError, Holdfast, Permanent, State


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A shop in the current folder, named by HOLDFAST_APP."""
    with in_shop(tmp_path, monkeypatch) as shop:
        yield shop


async def test_jobs_are_chosen_by_id_prefix_signature_and_time(app: Holdfast) -> None:
    @app.task(queue="mail", name="send")
    async def send(why: str) -> None:
        raise Permanent(why)

    async with app:
        for id, why in (("order-1", "no bread 1"), ("order-2", "no butter"), ("mail-1", "no bread 2")):
            await send.options(job_id=id).enqueue(why)
        await burst(app)
        assert [job.id for job in (await app.jobs(id_prefix="order-")).jobs] == ["order-2", "order-1"]
        (error,) = [job.error for job in (await app.jobs(ids=["order-1"])).jobs]
        assert error is not None
        alike = await app.queue("mail").jobs(signature=error.signature)
        assert [job.id for job in alike.jobs] == ["mail-1", "order-1"], "numbers make no other signature"
        hour_ago = datetime.now(UTC) - timedelta(hours=1)
        assert len((await app.jobs(enqueued_after=hour_ago)).jobs) == 3
        assert (await app.jobs(enqueued_before=hour_ago.timestamp())).jobs == []
        assert len((await app.jobs(started_after=hour_ago, finished_after=hour_ago)).jobs) == 3
        assert (await app.jobs(started_before=hour_ago)).jobs == []
        assert (await app.jobs(ids=["order-1"], finished_before=hour_ago)).jobs == []
        assert (await app.count(signature=error.signature)).number == 2
        assert (await app.queue("mail").count(id_prefix="order-", most=1)) == await app.count(id_prefix="o", most=1)
        assert len(await app.requeue(signature=error.signature)) == 2
        runs = await app.queue("mail").runs("order-1")
        assert [run.state for run in runs] == [State.WAITING, State.FAILED]
        assert await app.queue("mail").runs("order-1", limit=1) == runs[:1]


async def test_lists_of_a_state_have_its_order(app: Holdfast) -> None:
    async with app:
        queue = app.queue("mail")
        for delay in (300, 100, 200):
            await queue.options(job_id=f"in-{delay}", delay=delay).enqueue(None)
        page = await app.jobs(state="scheduled", limit=2)
        rest = await app.jobs(state="scheduled", cursor=page.cursor)
        assert [job.id for job in (*page.jobs, *rest.jobs)] == ["in-100", "in-200", "in-300"]
        with pytest.raises(ConfigError, match="with another filter: begin at the first page"):
            await app.jobs(state="waiting", cursor=page.cursor)


async def test_counts_and_measures_tell_how_much_there_is(app: Holdfast) -> None:
    async with app:
        queue = app.queue("mail")
        await app.enqueue_many(queue.args(number) for number in range(7))
        assert (await app.count()).number == (await app.count(state="waiting")).number == 7
        assert (await queue.count(state="failed")).number == 0
        measured = await app.measure()
        assert [(each.info.name, each.info.counts["waiting"]) for each in measured.queues] == [("mail", 7)]
        assert measured.log.events == 7
        with pytest.raises(ConfigError, match="most"):
            await app.count(most=0)


async def test_keys_are_listed_with_their_limits(app: Holdfast) -> None:
    async with app:
        queue = app.queue("mail")
        await queue.limit_key("ann", 2)
        for number, key in enumerate(("ann", "bob", "ann")):
            await queue.options(job_id=f"j{number}", key=key).enqueue(None)
        ann, bob = await queue.keys(order="name")
        assert (ann.key, ann.waiting, ann.limit, ann.own_limit) == ("ann", 2, 2, True)
        assert (bob.key, bob.waiting, bob.limit) == ("bob", 1, None)
        assert [each.key for each in await queue.keys(order="busiest", limit=1)] == ["ann"]
        with pytest.raises(ConfigError, match="order='loudest' is none; known are busiest, starved, name"):
            await queue.keys(order="loudest")  # type: ignore[arg-type]


async def test_who_waits_for_a_job_and_where_settings_come_from(app: Holdfast) -> None:
    @app.task(queue="mail", name="send")
    async def send() -> None: ...

    async with app:
        first = await send.options(job_id="first", delay=60).enqueue()
        second = await send.options(job_id="second", blockers=[first]).enqueue()
        found = await app.queue("mail").dependants("first")
        assert ([each.id for each in found.jobs], found.count) == (["second"], 1)
        assert (await app.queue("mail").dependants(second.id)).count == 0
        await app.queue("mail").set(concurrency=9)
        layers = await app.queue("mail").layers()
        assert (layers.operator["concurrency"], layers.declared.get("concurrency")) == (9, None)


# --- the command line


def test_the_command_lists_by_id_prefix_signature_and_time(shop: Shop) -> None:
    for id in ("order-1", "order-2", "mail-1"):
        shop.ok("enqueue", "send", "to=ann", "--id", id)

    def ids(*options: str) -> list[str]:
        return [job["id"] for job in shop.json("jobs", "list", *options)["jobs"]]

    assert ids("--id-prefix", "order-") == ["order-2", "order-1"]
    assert ids("--id-prefix", "order-", "--since", "1h") == ["order-2", "order-1"]
    assert ids("--until", "1h") == ids("--signature", "0" * 16) == []
    assert ids("--since", "2000-01-01T00:00") == ["mail-1", "order-2", "order-1"]
    assert ids("--since", "1h", "--by", "finished") == []
    assert ids("--state", "waiting", "--limit", "1") == ["mail-1"]
    shop.work()
    assert ids("--since", "1h", "--by", "finished", "--id-prefix", "order-") == ["order-2", "order-1"]
    assert ids("--until", "1h", "--by", "started") == []


def test_the_command_shows_the_keys_of_a_queue(shop: Shop) -> None:
    async def fill() -> None:
        async with shop.app as app:
            queue = app.queue("mail")
            await queue.limit_key("ann", 1)
            for key in ("ann", "ann", "bob"):
                await queue.options(key=key).enqueue(None)

    asyncio.run(fill())
    found = shop.json("queues", "keys", "mail", "--order", "name")
    assert found["name"] == "mail"
    assert [(key["key"], key["waiting"], key["limit"]) for key in found["keys"]] == [("ann", 2, 1), ("bob", 1, None)]
    told = shop.ok("queues", "keys", "mail", "--limit", "1")
    assert "ann" in told
    assert "1*" in told
    assert "bob" not in told
