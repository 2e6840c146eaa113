"""Claims that leave the rows of their jobs alone: whoever looks at such a job, or changes it, finds it claimed."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

import psycopg
from servers import postgres

from holdfast.core.envelope import Envelope
from holdfast.store.contract import KEEP, Complete, NewJob, Released, Session
from holdfast.store.postgres import PostgresStore
from holdfast.store.postgres.doctor import recount
from holdfast.store.postgres.scan import PostgresScan
from holdfast.store.scan import Condition, ScanPlan

_numbers = itertools.count(1)
TAGS = Envelope(headers={"a": "b"}).encoded()
SLOW = """
CREATE OR REPLACE FUNCTION holdfast.is_torn(p_blob bytea) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('holdfast_test.slow', true) = 'on' THEN
        PERFORM pg_advisory_xact_lock(hashtext('{}'));
    END IF;
    RETURN false;
END $$;
"""
"""A look at an envelope that waits for the test, in a transaction that says so."""


def session(name: str) -> Session:
    return Session(id=name, name=name, host="here", pid=1, queues=("q",), lease_ms=60_000, slots=10)


W, V = session("w"), session("v")


@asynccontextmanager
async def opened() -> AsyncIterator[PostgresStore]:
    store = PostgresStore(postgres().url(f"deferred_{os.getpid()}_{next(_numbers)}"))
    await store.open()
    await store.register(W)
    await store.register(V)
    try:
        yield store
    finally:
        await store.caller.rows(f'DROP SCHEMA "{store.caller.address.schema}" CASCADE', ())
        await store.close()


async def fill(store: PostgresStore, *ids: str, **options: Any) -> None:
    await store.enqueue("q", [NewJob(id=id, task="t", payload=b"", fresh=True, **options) for id in ids])


async def states(store: PostgresStore) -> dict[str, str]:
    """Return what the rows themselves say."""
    rows = await store.caller.rows(store.caller.named("SELECT id, state FROM holdfast.job ORDER BY id"), ())
    return dict(rows)


async def test_a_claim_leaves_the_row_alone_and_everybody_sees_it() -> None:
    async with opened() as store:
        await fill(store, "a", "b")
        (claimed,) = (await store.settle_and_claim(W, [], ["q"], 1)).claimed
        assert await states(store) == {"a": "waiting", "b": "waiting"}
        found = await store.get("q", "a")
        assert found is not None
        assert (found.state, found.counters.attempts, claimed.lease.attempt) == ("active", 1, 1)
        (info,) = await store.queues()
        assert (info.counts["waiting"], info.counts["active"]) == (1, 1)
        (again,) = await store.enqueue("q", [NewJob(id="a", task="t", payload=b"")], KEEP)
        assert (again.status, again.state) == ("duplicate", "active")
        assert await recount(store.caller) == []


async def test_a_scan_sees_it_too() -> None:
    async with opened() as store:
        await fill(store, "a", "b")
        await store.settle_and_claim(W, [], ["q"], 1)
        with closing(PostgresScan(store.caller.address)) as scan:
            active = (Condition("state", "=", "active"),)
            plan = ScanPlan(table="jobs", columns=("id", "state", "worker", "attempts"), which=active)
            pages = [page for part in scan.plan(plan) for page in scan.read(plan, part)]
            assert [tuple(page[name] for name in plan.columns) for page in pages] == [
                (("a",), ("active",), ("w",), (1,))
            ]


async def test_a_job_that_comes_back_was_written_and_waits_again() -> None:
    async with opened() as store:
        await fill(store, "a")
        (claimed,) = (await store.settle_and_claim(W, [], ["q"], 1)).claimed
        turn = await store.settle_and_claim(W, [Released(claimed.lease)], ["q"], 1)
        assert [job.lease.attempt for job in turn.claimed] == [2]
        assert await states(store) == {"a": "active"}
        late = await store.settle_and_claim(W, [Complete(claimed.lease, b"")], [], 0)
        assert [settled.reply for settled in late.settled] == ["stale"]


async def test_a_claim_that_saw_the_place_of_a_job_before_another_took_it_does_not_take_it_again() -> None:
    """The row says nothing of the other's claim, so what decides is who removed the place."""
    async with opened() as store:
        await fill(store, "a", "b", envelope=TAGS)
        schema = store.caller.address.schema
        claim = store.caller.named("SELECT v_taken, v_refused FROM holdfast.claim_keyless(1, '{}', 'q', 2, true)")
        async with (
            await psycopg.AsyncConnection.connect(store.caller.address.conninfo, autocommit=True) as gate,
            await psycopg.AsyncConnection.connect(store.caller.address.conninfo, autocommit=True) as slow,
        ):
            await gate.execute(store.caller.named(SLOW.format(schema)))
            await gate.execute("SELECT pg_advisory_lock(hashtext(%s))", (schema,))
            await slow.execute("SET holdfast_test.slow = 'on'")
            taking = asyncio.create_task(slow.execute(claim.format("v")))  # sees the place of `a`, and waits
            while not await waits(gate):
                assert not taking.done()
            turn = await store.settle_and_claim(W, [], ["q"], 2)
            assert [job.lease.id for job in turn.claimed] == ["a", "b"]
            await gate.execute("SELECT pg_advisory_unlock(hashtext(%s))", (schema,))
            assert await (await taking).fetchall() == [([], 2)]


async def waits(connection: psycopg.AsyncConnection[Any]) -> bool:
    cursor = await connection.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
    return await cursor.fetchone() == (1,)
