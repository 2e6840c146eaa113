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
from holdfast.store.contract import KEEP, Answer, Complete, Continuation, NewJob, Session
from holdfast.store.postgres import PostgresStore, sql
from holdfast.store.postgres.call import arguments, replies
from holdfast.store.postgres.connection.connect import Connection

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
    """An array of keys, all of which are empty, leaves the fast path out, and is a key of none."""
    values = {**arguments.enqueue(str(NOW), "q", JOBS, KEEP), "keys": "{NULL,NULL,NULL}"}
    rows = await calling(store, store.caller.statement("enqueue"), values)
    return [replies.answer(row) for row in rows]


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


def claiming(function: str) -> Path:
    async def claim(store: PostgresStore) -> Any:
        await store.register(SESSION)
        await by_enqueue_new(store)
        taken = []
        for _ in JOBS:  # one at a time: a batch is one grip, and lanes have a grip for each job
            statement = store.caller.named(
                f"SELECT v_taken, v_refused FROM holdfast.{function}(%s::bigint, 'w', 'q', 1)"
            )
            taken += await calling(store, statement, (NOW,))
        return taken

    return claim


async def test_claim_keyless_is_claim_by_lane() -> None:
    await the_same(claiming("claim_keyless"), claiming("claim_by_lane"))


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


DEFERRED = f"claim_deferred({NOW}, 'w', 'q', {{runs}})"
AT_ONCE = f"claim_runs({NOW}, 'w', {{runs}})"


async def test_a_deferred_claim_reads_as_one_that_is_written() -> None:
    async with two_stores() as (one, other):
        assert await claiming_together(DEFERRED)(one) != await claiming_together(AT_ONCE)(other), "rows are left alone"
        assert await left(one) == await left(other)


async def test_a_deferred_claim_that_is_written_is_one_that_was_written_at_once() -> None:
    await the_same(claiming_together(DEFERRED, "write_claims({runs})"), claiming_together(AT_ONCE))


async def test_what_is_read_of_jobs_has_every_column_of_them() -> None:
    async with two_stores() as (one, _):
        await by_enqueue_new(one)
        table = await one.caller.rows(one.caller.named("SELECT * FROM holdfast.job ORDER BY run"), (), named=True)
        read = await one.caller.rows(sql.statements(one.caller.address.schema)["current"], (), named=True)
        assert sorted(read, key=lambda row: row["run"]) == table
        assert list(read[0]) == list(table[0])


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
