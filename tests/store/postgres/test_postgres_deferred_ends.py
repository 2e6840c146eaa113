"""Completions that leave the rows of their jobs alone: whoever looks at such a job, or changes it, finds its end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import psycopg
import pytest
from test_postgres_deferred import W, fill, opened, states

from holdfast.core.chain import BlockerRef
from holdfast.core.state import State
from holdfast.store.contract import KEEP, Claimed, Complete, Filter, NewJob, Settled
from holdfast.store.postgres import PostgresStore
from holdfast.store.postgres.call import arguments
from holdfast.store.postgres.doctor import recount


async def ended(store: PostgresStore, *ids: str, result: bytes = b"1") -> list[Claimed]:
    """Complete these jobs in one turn, with results that tell them apart."""
    await fill(store, *ids)
    claimed = (await store.settle_and_claim(W, [], ["q"], len(ids))).claimed
    assert await settled(store, [Complete(job.lease, result + job.lease.id.encode()) for job in claimed]) == [
        "ok"
    ] * len(ids)
    return claimed


async def settled(store: PostgresStore, settlements: Sequence[Complete]) -> list[str]:
    return words((await store.settle_and_claim(W, settlements, [], 0)).settled)


def words(found: Sequence[Settled]) -> list[str]:
    return [str(each.reply) for each in found]


async def value(store: PostgresStore, query: str) -> object:
    ((found,),) = await store.caller.rows(store.caller.named(query), ())
    return found


async def test_rows_are_left_alone_and_everybody_sees_the_end() -> None:
    async with opened() as store:
        await ended(store, "a", "b", "c")
        assert await states(store) == dict.fromkeys("abc", "waiting")
        found = await store.get("q", "b")
        assert found is not None
        assert (found.state, found.result, found.counters.attempts) == ("completed", b"1b", 1)
        listed = (await store.jobs(Filter(states=(State.COMPLETED,)))).jobs
        assert sorted((job.id, job.result) for job in listed) == [("a", b"1a"), ("b", b"1b"), ("c", b"1c")]
        (again,) = await store.enqueue("q", [NewJob(id="a", task="t", payload=b"")], KEEP)
        assert (again.status, again.state, again.result) == ("completed", "completed", b"1a")
        assert await store.held(W) == []
        assert await recount(store.caller) == []


@pytest.mark.parametrize("watched", [False, True], ids=["alone", "with one that is waited for"])
async def test_a_turn_that_is_repeated_while_the_first_is_under_way_completes_nothing_twice(watched: bool) -> None:
    async with opened() as store:
        await fill(store, "a", "b")
        claimed = (await store.settle_and_claim(W, [], ["q"], 2)).claimed
        done = [Complete(job.lease, b"1") for job in claimed]
        values = arguments.turn(None, W, done, [], room=0, park=False, held=0, only_suspects=False)
        async with await psycopg.AsyncConnection.connect(store.caller.address.conninfo) as first:
            await first.execute(store.caller.statement("take_turn"), {**values, "lock_all": "false"})
            if watched:
                await fill(store, "c", watcher="hf_00:1")
                done += [Complete(job.lease, b"1") for job in (await store.settle_and_claim(W, [], ["q"], 1)).claimed]
            again = asyncio.create_task(settled(store, done))
            while await value(store, "SELECT count(*) FROM pg_locks WHERE NOT granted") == 0:
                assert not again.done()
            await first.commit()
            assert await again == ["ok"] * len(done)
        (info,) = await store.queues()
        assert (info.counts["completed"], info.counts["active"]) == (len(done), 0)
        transitions = [event.transition for event in (await store.events(queue="q")).events]
        assert transitions.count("complete") == len(done)
        assert await recount(store.caller) == []


async def test_a_job_that_ended_so_can_be_requeued_deleted_and_kept_for_longer() -> None:
    async with opened() as store:
        await ended(store, "a", "b", "c", "d")
        assert [id for _, id, _ in await store.requeue(Filter(queue="q", states=(State.COMPLETED,), ids=("a",)))] == [
            "a"
        ]
        assert await store.delete("q", "b") == "ok"
        assert await store.set_result_ttl("q", "c", 3_600_000) == "ok"
        assert await states(store) == {"a": "waiting", "c": "completed", "d": "waiting"}
        kept = await store.get("q", "c")
        assert kept is not None
        assert kept.result == b"1c"
        (info,) = await store.queues()
        assert (info.counts["completed"], info.counts["waiting"]) == (3, 1)
        assert await recount(store.caller) == []


async def test_runs_that_are_kept_by_their_numbers_are_written_where_they_were_claimed_or_have_ended() -> None:
    async with opened() as store:
        await fill(store, "a", "b")
        (first,) = await ended(store, "c")
        assert (first.lease.id, await states(store)) == ("a", dict.fromkeys("abc", "waiting"))
        (second,) = (await store.settle_and_claim(W, [], ["q"], 1)).claimed
        run = first.lease.run
        await store.keep_runs("q", run + 2, run + 2, 5_000)  # of which no row is out of date
        assert await states(store) == dict.fromkeys("abc", "waiting")
        await store.keep_runs("q", run, run + 2, 5_000)
        assert await states(store) == {"a": "completed", "b": "active", "c": "waiting"}
        (third,) = (await store.settle_and_claim(W, [Complete(second.lease, b"2")], ["q"], 1)).claimed
        assert await settled(store, [Complete(third.lease, b"3")]) == ["ok"]
        for id in "abc":
            job = await store.get("q", id)
            assert job is not None
            assert job.expires_at_ms - job.finished_at_ms < 6_000
        assert await recount(store.caller) == []


async def test_whoever_waits_for_it_finds_it_completed() -> None:
    async with opened() as store:
        (job, _) = await ended(store, "a", "b")
        after = NewJob(id="after", task="t", payload=b"", blockers=(BlockerRef("q", "a", job.lease.run),))
        (answer,) = await store.enqueue("q", [after])
        assert answer.state == "waiting"
        (blocker,) = await store.blockers("q", "after", answer.run)
        assert (blocker.state, blocker.result) == ("completed", b"1a")
        assert not await store.caller.value("watch", queue="q", id="a", run=job.lease.run, address="hf_00:1")


async def test_it_expires_with_an_event_of_its_attempt_and_one_that_is_locked_stays() -> None:
    async with opened() as store:
        await ended(store, "a", "b", "c")
        await value(store, "WITH past AS (UPDATE holdfast.expiry SET at_ms = 1 RETURNING 1) SELECT count(*) FROM past")
        async with await psycopg.AsyncConnection.connect(store.caller.address.conninfo) as other:
            await other.execute(store.caller.named("SELECT 1 FROM holdfast.job WHERE id = 'b' FOR UPDATE"))
            assert (await store.expire("q")).runs == 2
        assert (await store.expire("q")).runs == 1
        gone = [event for event in (await store.events(queue="q")).events if event.transition == "expire"]
        assert [(event.id, event.attempt) for event in gone] == [("a", 1), ("c", 1), ("b", 1)]
        assert await value(store, "SELECT count(*) FROM holdfast.expiry") == 0
        (info,) = await store.queues()
        assert info.counts["completed"] == 0
        assert await recount(store.caller) == []


@pytest.mark.parametrize("reason", ["a large result", "runs far apart"])
async def test_ends_that_would_be_slow_to_read_are_written(reason: str) -> None:
    async with opened() as store:
        if reason == "a large result":
            await ended(store, "a", "b", result=b"1" * 100)
        else:
            await fill(store, "a")
            await value(store, "SELECT setval('holdfast.run', 100000)")
            await fill(store, "b")
            claimed = (await store.settle_and_claim(W, [], ["q"], 2)).claimed
            assert await settled(store, [Complete(job.lease, b"1") for job in claimed]) == ["ok", "ok"]
        assert set((await states(store)).values()) == {"completed"}
