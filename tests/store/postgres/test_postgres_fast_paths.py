"""Every fast path leaves the same rows, events and answers as the slow path whose place it takes."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from servers import postgres

from holdfast.core.envelope import Envelope
from holdfast.core.state import State
from holdfast.store.contract import KEEP, Answer, Complete, Continuation, Filter, NewJob, Session
from holdfast.store.postgres import PostgresStore, sql
from holdfast.store.postgres.call import arguments, replies
from holdfast.store.postgres.call.entry import entry
from holdfast.store.postgres.connection.connect import Connection
from holdfast.store.postgres.doctor import recount

_numbers = itertools.count(1)
NOW = 1_000_000
SESSION = Session(id="w", name="w", host="here", pid=1, queues=("q",), lease_ms=60_000, slots=10)
TAGS = Envelope(headers={"a": "b"}, tags=("red",)).encoded()
JOBS = [
    NewJob(id="b", task="t", payload=b"1", fresh=True),
    NewJob(id="a", task="u", payload=b"2", fresh=True, priority=5, envelope=TAGS, result_ttl_ms=7),
    NewJob(id="c", task=None, payload=b"3", fresh=True, watcher="hf_00:1"),
]
Path = Callable[[PostgresStore], Awaitable[Any]]


@asynccontextmanager
async def two_stores() -> AsyncIterator[tuple[PostgresStore, PostgresStore]]:
    """Yield stores in schemas of their own, at a fixed time."""
    urls = [postgres().url(f"fast_{os.getpid()}_{next(_numbers)}") for _ in range(2)]
    one, other = (PostgresStore(url, clock=lambda: NOW) for url in urls)
    await one.open()
    await other.open()
    try:
        yield one, other
    finally:
        for store in (one, other):
            await store.caller.rows(f'DROP SCHEMA "{store.caller.address.schema}" CASCADE', ())
            await store.close()


LEFT_OUT = {
    "job": {"grip"},
    "expiry": {"block", "session", "claimed_at_ms", "finished_at_ms", "free_at_ms", "results"},
    "event": {"xid", "seq"},
    "grip": {"claimed_at_ms", "last_run"},
    "queue": {"turn", "keyless_turn", "revision"},
    "front": {"looked_at", "took"},
}
"""Columns in which two stores differ whatever happens, and the order of events of different runs."""
TABLES = ("job", "ready", "suspect", "event", "watch", "grip", "expiry", "successor", "blocker", "lane", "session")


async def left(store: PostgresStore) -> dict[str, list[Any]]:
    """Return every row that a path leaves, and what the queues count."""
    found = {}
    for table in TABLES:
        source = store.caller.named(f"SELECT * FROM holdfast.{table}")
        if table == "job":
            source = sql.statements(store.caller.address.schema)["current"]
        elif table == "event":
            source = store.caller.named(
                "SELECT p.* FROM holdfast.event e CROSS JOIN LATERAL holdfast.unpacked(e) p ORDER BY p.seq"
            )
        rows = await store.caller.rows(source, (), named=True)
        kept = [{k: v for k, v in row.items() if k not in LEFT_OUT.get(table, ())} for row in rows]
        found[table] = sorted(kept, key=repr)
    found["counts"] = [info.counts for info in await store.queues()]
    return found


async def the_same(fast: Path, slow: Path) -> None:
    async with two_stores() as (one, other):
        assert await fast(one) == await slow(other)
        assert await left(one) == await left(other)


def calling(store: PostgresStore, statement: str, values: Any) -> Awaitable[list[Any]]:
    async def work(connection: Connection, again: bool) -> list[Any]:
        async with connection.cursor(binary=True) as cursor:
            await cursor.execute(statement, values)
            return await cursor.fetchall()

    return store.caller.run(work, repeatable=False)


# --- enqueue_fresh and enqueue_new, beside enqueue_each


async def by_enqueue_fresh(store: PostgresStore) -> list[Answer]:
    await calling(store, store.caller.named("SELECT holdfast.ensure_queue('q')"), ())
    values = arguments.enqueue_fresh(str(NOW), "q", JOBS)
    ((runs,),) = await calling(store, store.caller.statement("enqueue_fresh"), values)
    return replies.queued(JOBS, runs)


async def by_enqueue_new(store: PostgresStore) -> list[Answer]:
    rows = await calling(store, store.caller.statement("enqueue"), arguments.enqueue(str(NOW), "q", JOBS, KEEP))
    return [replies.answer(row) for row in rows]


async def by_enqueue_each(store: PostgresStore) -> list[Answer]:
    return await one_by_one(store, JOBS)


async def one_by_one(store: PostgresStore, jobs: list[NewJob]) -> list[Answer]:
    """Enqueue jobs by the slow path: whoever would requeue what failed looks at every id."""
    values = {**arguments.enqueue(str(NOW), "q", jobs, KEEP), "requeues": "true"}
    rows = await calling(store, store.caller.statement("enqueue"), values)
    return [replies.answer(row) for row in rows]


KEYED = [
    NewJob(id=f"k{number}", task="t", payload=b"1", key=key, priority=number, delay_ms=delay)
    for number, (key, delay) in enumerate([("x", 0), (None, 0), ("y", 0), ("x", 0), ("z", 9)])
]


async def test_enqueue_new_is_enqueue_each_for_jobs_with_keys() -> None:
    await the_same(lambda store: store.enqueue("q", KEYED), lambda store: one_by_one(store, KEYED))


async def test_enqueue_fresh_is_enqueue() -> None:
    await the_same(by_enqueue_fresh, by_enqueue_each)


async def test_enqueue_new_is_enqueue_each() -> None:
    await the_same(by_enqueue_new, by_enqueue_each)


async def test_enqueue_fresh_numbers_runs_by_the_places_given() -> None:
    async def sorted_by_id(store: PostgresStore) -> list[Answer]:
        await calling(store, store.caller.named("SELECT holdfast.ensure_queue('q')"), ())
        order = sorted(range(len(JOBS)), key=lambda index: JOBS[index].id)
        values = arguments.enqueue_fresh(str(NOW), "q", [JOBS[index] for index in order], order)
        ((runs,),) = await calling(store, store.caller.statement("enqueue_fresh"), values)
        return replies.queued(JOBS, [run for _, run in sorted(zip(order, runs, strict=True))])

    await the_same(sorted_by_id, by_enqueue_each)


# --- claim_keyless, beside claim_by_lane


def claiming(call: str) -> Path:
    async def claim(store: PostgresStore) -> Any:
        await store.register(SESSION)
        await by_enqueue_new(store)
        taken = []
        for _ in JOBS:  # one at a time: those without a key have one turn among the lanes
            statement = store.caller.named(f"SELECT v_taken, v_refused FROM holdfast.{call}")
            taken += await calling(store, statement, ())
        return taken

    return claim


async def test_claim_keyless_is_claim_by_lane() -> None:
    await the_same(claiming(f"claim_keyless({NOW}, 'w', 'q', 1, true)"), claiming(f"claim_by_lane({NOW}, 'w', 'q', 1)"))


# --- claim_deferred, beside claim_runs


def claiming_together(*steps: str) -> Path:
    """A claim, and what is called after it."""

    async def claim(store: PostgresStore) -> Any:
        await store.register(SESSION)
        await by_enqueue_new(store)
        runs = "ARRAY(SELECT run FROM holdfast.job ORDER BY run)"
        gone = "DELETE FROM holdfast.ready RETURNING 1"
        for step in (gone, *(f"SELECT holdfast.{each}".format(runs=runs) for each in steps)):
            await calling(store, store.caller.named(step), ())
        return await store.caller.rows(store.caller.named("SELECT * FROM holdfast.job ORDER BY run"), ())

    return claim


DEFERRED = f"claim_deferred({NOW}, 'w', holdfast.plain_claim_of({NOW}, 'q', {{runs}}))"
AT_ONCE = f"claim_runs({NOW}, 'w', {{runs}})"


async def test_a_deferred_claim_reads_as_one_that_is_written() -> None:
    async with two_stores() as (one, other):
        assert await claiming_together(DEFERRED)(one) != await claiming_together(AT_ONCE)(other), "rows are left alone"
        assert await left(one) == await left(other)


async def test_a_deferred_claim_that_is_written_is_one_that_was_written_at_once() -> None:
    await the_same(claiming_together(DEFERRED, "write_current_rows({runs})"), claiming_together(AT_ONCE))


async def test_what_is_read_of_jobs_has_every_column_of_them() -> None:
    async with two_stores() as (one, _):
        await by_enqueue_new(one)
        table = await one.caller.rows(one.caller.named("SELECT * FROM holdfast.job ORDER BY run"), (), named=True)
        read = await one.caller.rows(sql.statements(one.caller.address.schema)["current"], (), named=True)
        assert sorted(read, key=lambda row: row["run"]) == table
        assert list(read[0]) == list(table[0])


# --- jobs that are claimed in arrays, beside jobs that are claimed in rows


def claimed_in(arrays: str) -> Path:
    async def claim(store: PostgresStore) -> Any:
        await store.register(SESSION)
        await store.adjust("q", "u", {"timeout_ms": 700})
        await store.enqueue("q", JOBS)
        values = arguments.turn(str(NOW), SESSION, [], ["q"], room=5, park=False, held=0, only_suspects=False)
        rows = await calling(
            store, store.caller.statement("take_turn"), {**values, "lock_all": "false", "arrays": arrays}
        )
        assert len(rows) == (2 if arrays == "true" else 4)
        assert replies.claimed_count(rows) == 3
        turn, broken = replies.TurnReader().turn(rows, 0, "w", 1)
        return turn, broken

    return claim


async def test_jobs_that_are_claimed_in_arrays_are_those_that_are_claimed_in_rows() -> None:
    async with two_stores() as (one, other):
        turn, broken = await claimed_in("true")(one)
        assert (turn, broken) == await claimed_in("false")(other)
        assert [(job.lease.id, job.timeout_ms, bool(job.envelope.tags)) for job in turn.claimed] == [
            ("a", 700, True),
            ("b", None, False),
            ("c", None, False),
        ]


async def test_large_payloads_are_claimed_in_rows() -> None:
    async with two_stores() as (one, _):
        await one.register(SESSION)
        await one.enqueue("q", [NewJob(id=id, task="t", payload=id.encode() * 10_000) for id in ("a", "b")])
        turn = await one.settle_and_claim(SESSION, [], ["q"], 5)
        assert [job.payload for job in turn.claimed] == [b"a" * 10_000, b"b" * 10_000]


async def test_an_older_client_gets_a_row_for_each_job_behind_that_of_the_turn() -> None:
    async with two_stores() as (one, _):
        await one.register(SESSION)
        await one.enqueue("q", JOBS)
        values = arguments.turn(str(NOW), SESSION, [], ["q"], room=5, park=False, held=0, only_suspects=False)
        rows = await calling(one, one.caller.statement("turn"), {**values, "lock_all": "false"})
        names = entry("turn").replies
        assert [dict(zip(names, row, strict=True))["id"] for row in rows] == [None, "a", "b", "c"]
        assert rows[0][0]


# --- continue_chains, beside continue_chain


def continuing(slow: bool) -> Path:
    async def carry_on(store: PostgresStore) -> Any:
        await store.register(SESSION)
        await store.enqueue("q", [NewJob(id="first", task="t", payload=b"")])
        (claimed,) = (await store.settle_and_claim(SESSION, [], ["q"], 1)).claimed
        if slow:  # the id is another's, so that the job gets one of its own
            await store.enqueue("q", [NewJob(id="next", task="t", payload=b"", delay_ms=10)])
        job = NewJob(id="next", task="u", payload=b"2", priority=3, envelope=TAGS, result_ttl_ms=9)
        turn = await store.settle_and_claim(SESSION, [Complete(claimed.lease, b"", then=Continuation("q", job))], [], 0)
        chain = await store.chain("q", "first")
        assert chain is not None
        found = await store.get("q", chain.current.id)
        assert found is not None
        event = (await store.events(queue="q", id=found.id)).events[-1]
        fields = ("task", "state", "priority", "payload", "envelope", "run_at_ms", "position", "chain", "expires_at_ms")
        told = (event.transition, event.state, event.envelope, event.task, event.priority, event.cause)
        return turn.settled, [getattr(found, name) for name in fields], told, chain.state, chain.position

    return carry_on


async def test_continue_chains_is_continue_chain() -> None:
    async with two_stores() as (one, other):
        assert await continuing(False)(one) == await continuing(True)(other)


# --- one batch of completions, beside one settlement at a time


def completing(together: bool) -> Path:
    async def complete(store: PostgresStore) -> Any:
        await store.register(SESSION)
        await by_enqueue_new(store)
        claimed = (await store.settle_and_claim(SESSION, [], ["q"], 10)).claimed
        done = [Complete(job.lease, b"r", result_ttl_ms=5 if job.task else None) for job in claimed]
        groups = [done] if together else [[each] for each in done]
        return [word for group in groups for word in (await store.settle_and_claim(SESSION, group, [], 0)).settled]

    return complete


async def test_completions_in_a_batch_are_completions_one_by_one() -> None:
    async with two_stores() as (one, other):
        assert await completing(True)(one) == await completing(False)(other)
        batch, single = await left(one), await left(other)
        del batch["expiry"], single["expiry"]  # whose rows have the runs of one call together
        assert batch == single


# --- complete_deferred, beside complete

OFF = "UPDATE holdfast.meta SET value = 'off' WHERE name = 'deferred_ends' RETURNING 1"


def ending(*steps: str) -> Path:
    """Jobs that are claimed together and end together, and what is called before and after that."""

    async def end(store: PostgresStore) -> Any:
        await store.register(SESSION)
        before, after = (steps[:1], steps[1:]) if steps[:1] == (OFF,) else ((), steps)
        for step in before:
            await calling(store, store.caller.named(step), ())
        jobs = [NewJob(id=f"j{number}", task="t", payload=b"1", result_ttl_ms=number or None) for number in range(4)]
        await store.enqueue("q", jobs)
        claimed = (await store.settle_and_claim(SESSION, [], ["q"], 10)).claimed
        done = [Complete(job.lease, b"%d" % (number // 2)) for number, job in enumerate(claimed[:3])]
        settled = (await store.settle_and_claim(SESSION, done, [], 0)).settled
        for step in after:
            await calling(store, store.caller.named(step), ())
        read = [await store.get("q", job.id) for job in jobs], await store.jobs(Filter(states=(State.COMPLETED,)))
        return settled, read, await store.held(SESSION), await recount(store.caller)

    return end


async def test_a_deferred_end_reads_as_one_that_is_written() -> None:
    async with two_stores() as (one, other):
        assert await ending()(one) == await ending(OFF)(other)
        ends, written = await left(one), await left(other)
        for grip in (*ends["grip"], *written["grip"]):
            del grip["runs"]  # what has ended leaves its grip at once, or when it is looked at
        assert ends == written
        query = "SELECT array_agg(state ORDER BY run) FROM holdfast.job"
        states = [await store.caller.rows(store.caller.named(query), ()) for store in (one, other)]
        assert states == [[(["waiting"] * 4,)], [(["completed"] * 3 + ["waiting"],)]]


async def test_a_deferred_end_that_is_written_is_one_that_was_written_at_once() -> None:
    async with two_stores() as (one, other):
        write = "SELECT holdfast.write_current_rows(ARRAY(SELECT run FROM holdfast.job ORDER BY run))"
        assert await ending(write)(one) == await ending(OFF, write)(other)
        ends, written = await left(one), await left(other)
        for grip in (*ends["grip"], *written["grip"]):
            del grip["runs"]
        assert ends == written


# --- notify_runs, beside notify_run


def notifying(together: bool) -> Path:
    async def notify(store: PostgresStore) -> Any:
        await by_enqueue_new(store)
        runs = await calling(store, store.caller.named("SELECT run, id FROM holdfast.job ORDER BY run"), ())
        watch = (
            "INSERT INTO holdfast.watch (run, address, queue, id) SELECT run, 'hf_{0}:1', queue, id FROM holdfast.job"
        )
        channel = f"{next(_numbers):x}"
        await calling(store, store.caller.named(watch.format(channel) + " ON CONFLICT DO NOTHING RETURNING 1"), ())
        one = "SELECT holdfast.notify_run(%s::bigint, 'q', %s, %s::bigint, %s::bigint, 'completed')"
        every = "SELECT holdfast.notify_runs(%s::bigint, %s::bigint[], 'completed')"
        async with await psycopg.AsyncConnection.connect(store.caller.address.conninfo, autocommit=True) as listening:
            await listening.execute(f'LISTEN "hf_{channel}"')
            if together:
                await calling(store, store.caller.named(every), (NOW, [run for run, _ in runs]))
            else:
                for run, id in runs:
                    await calling(store, store.caller.named(one), (NOW, id, run, run))
            messages = [notice.payload async for notice in listening.notifies(timeout=1)]
        return [ended for message in messages for ended in json.loads(message.partition(":")[2])]

    return notify


async def test_notify_runs_is_notify_run() -> None:
    async with two_stores() as (one, other):
        heard = await notifying(True)(one)
        assert heard == await notifying(False)(other)
        assert len(heard) == len(JOBS)
        batch, single = await left(one), await left(other)
        assert batch["job"] == single["job"]
        assert [row["address"] for row in batch["watch"]] == [row["address"] for row in single["watch"]] == []


# --- several turns of a lane at once, beside one turn at a time


def taking_turns(limit: str | None) -> Path:
    """Claim jobs of three keys in two claims; a limit that binds nothing has every turn taken alone."""

    async def claim(store: PostgresStore) -> Any:
        await store.register(SESSION)
        if limit:
            await store.limit_key("q", limit, 100)
        jobs = [
            NewJob(id=f"{key}{number}", task="t", payload=b"", key=key, priority=number % 2)
            for key, count in (("x", 5), ("y", 2), ("z", 4))
            for number in range(count)
        ]
        await store.enqueue("q", jobs)
        return [
            [job.lease.id for job in (await store.settle_and_claim(SESSION, [], ["q"], 7)).claimed] for _ in range(2)
        ]

    return claim


async def test_several_turns_of_a_lane_at_once_are_one_turn_at_a_time() -> None:
    async with two_stores() as (one, other):
        taken = await taking_turns(None)(one)
        assert taken == await taking_turns("nobody")(other)
        assert taken[0] == ["x1", "y1", "z1", "x3", "y0", "z3", "x0"]
        at_once, alone = await left(one), await left(other)
        for found in (at_once, alone):
            del found["grip"]  # one for each time that the lanes took turns
            found["event"] = [event for event in found["event"] if event["transition"] != "operate"]
        assert at_once == alone
