"""Rows of the log that have the events of a whole call: readers see each event, wherever they begin and stop."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

import psycopg
import pytest
from servers import postgres

from holdfast.core.envelope import Envelope
from holdfast.core.event import Event
from holdfast.store.contract import Complete, NewJob, Session
from holdfast.store.postgres import PostgresStore, sql
from holdfast.store.postgres.scan import PostgresScan
from holdfast.store.scan import Condition, ScanPlan

_numbers = itertools.count(1)
W = Session(id="w", name="w", host="here", pid=1, queues=("q",), lease_ms=60_000, slots=10)
TAGS = Envelope(headers={"a": "b"}).encoded()
JOBS = [
    NewJob(id="a", task="t", payload=b"1", fresh=True, priority=5, envelope=TAGS),
    NewJob(id="b", task="u", payload=b"2", fresh=True),
    NewJob(id="c", task=None, payload=b"3", fresh=True, priority=-5),
]
TOLD = [
    ("a", "enqueue", "t", 5, {"a": "b"}), ("b", "enqueue", "u", 0, {}), ("c", "enqueue", None, -5, {}),
    ("a", "claim", "t", 5, {}), ("b", "claim", "u", 0, {}), ("c", "claim", None, -5, {}),
    ("a", "complete", "t", 5, {}), ("b", "complete", "u", 0, {}), ("c", "complete", None, -5, {}),
]  # fmt: skip


@asynccontextmanager
async def opened(name: str = "") -> AsyncIterator[PostgresStore]:
    store = PostgresStore(postgres().url(name or f"packs_{os.getpid()}_{next(_numbers)}"))
    await store.open()
    await store.register(W)
    try:
        yield store
    finally:
        await store.caller.rows(f'DROP SCHEMA "{store.caller.address.schema}" CASCADE', ())
        await store.close()


async def work(store: PostgresStore) -> None:
    """Enqueue, claim and complete all jobs, each in one call."""
    await store.enqueue("q", JOBS)
    claimed = (await store.settle_and_claim(W, [], ["q"], 10)).claimed
    await store.settle_and_claim(W, [Complete(job.lease, b"") for job in claimed], [], 0)


def told(events: list[Event]) -> list[tuple[Any, ...]]:
    return [(e.id, e.transition, e.task, e.priority, dict(e.envelope.headers)) for e in events]


async def spans(store: PostgresStore) -> list[int | None]:
    rows = await store.caller.rows(store.caller.named("SELECT span FROM holdfast.event ORDER BY seq"), ())
    return [span for (span,) in rows]


async def test_each_call_is_one_row_and_each_event_is_read() -> None:
    async with opened() as store:
        await work(store)
        assert await spans(store) == [3, 3, 3]
        events = (await store.events()).events
        assert told(events) == TOLD
        assert [e.wait_ms is not None for e in events] == [e.transition == "claim" for e in events]
        assert [e.run_ms is not None for e in events] == [e.transition == "complete" for e in events]
        assert {(e.attempt, e.worker) for e in events} == {(0, None), (1, "w")}


@pytest.mark.parametrize("limit", [1, 2, 4])
async def test_a_reader_may_stop_in_the_middle_of_a_row(limit: int) -> None:
    async with opened() as store:
        await work(store)
        found: list[Event] = []
        position = None
        while page := (await store.events(position, limit=limit)).events:
            assert len(page) <= limit
            found += page
            position = page[-1].position
        assert told(found) == TOLD


async def test_the_events_of_one_id_are_found() -> None:
    async with opened() as store:
        await work(store)
        assert told((await store.events(id="b")).events) == [each for each in TOLD if each[0] == "b"]
        assert told((await store.events(id="b", limit=1)).events) == [TOLD[1]]


async def test_a_scan_reads_them_in_shares_that_begin_in_the_middle_of_a_row() -> None:
    async with opened() as store:
        await work(store)
        with closing(PostgresScan(store.caller.address)) as scan:
            plan = ScanPlan(table="events", columns=("id", "transition"), parts=4, least=1)
            parts = scan.plan(plan)
            assert [part.rows for part in parts] == [3, 3, 3]
            two = ScanPlan(table="events", columns=("id", "transition"), parts=5, least=1)
            for each in (plan, two):
                pages = [page for part in scan.plan(each) for page in scan.read(each, part)]
                rows = [
                    row
                    for page in pages
                    for row in zip(*(page[name].to_pylist() for name in each.columns), strict=True)
                ]
                assert rows == [(id, transition) for id, transition, *_ in TOLD]
            which = (Condition("id", "=", "b"),)
            reached = scan.reach(None, 2, which)
            assert told((await store.events(reached)).events) == TOLD[5:]


async def test_a_log_is_trimmed_to_the_very_event() -> None:
    async with opened() as store:
        await work(store)
        first = (await store.events(limit=1)).events[0].position
        await store.caller.rows(store.caller.named("SELECT holdfast.trim_log(1, 4, 100)"), ())
        assert await spans(store) == [1, 3]
        page = await store.events(first)
        assert (told(page.events), page.gap) == (TOLD[5:], 4)


async def test_numbers_that_do_not_follow_each_other_make_a_row_for_each_event() -> None:
    async with opened() as store:
        await store.caller.rows(store.caller.named("ALTER SEQUENCE holdfast.event_seq INCREMENT BY 2"), ())
        await work(store)
        assert await spans(store) == [None] * 9
        assert told((await store.events()).events) == TOLD


async def test_a_store_of_the_first_version_keeps_a_row_for_each_event_and_goes_on() -> None:
    """Clients of that version may still read its log."""
    schema = f"packs_{os.getpid()}_{next(_numbers)}"
    first = sql.migrations()[0][1]
    job = (
        "INSERT INTO holdfast.queue (name) VALUES ('q');"
        "INSERT INTO holdfast.job (run, queue, id, state, task, run_at_ms, ready_at_ms, enqueued_at_ms, payload)"
        " VALUES (nextval('holdfast.run'), 'q', 'old', 'waiting', 't', 1, 1, 1, '');"
        "INSERT INTO holdfast.ready (queue, rank, run_at_ms, run) VALUES ('q', 0, 1, 1);"
        "INSERT INTO holdfast.event (at_ms, queue, id, run, attempt, transition, state, task, priority)"
        " VALUES (1, 'q', 'old', 1, 0, 'enqueue', 'waiting', 't', 0);"
        "INSERT INTO holdfast.move (queue, state, count) VALUES ('q', 'waiting', 1);"
    )
    with psycopg.connect(postgres().url().partition("?")[0], autocommit=True) as connection:
        connection.execute(f'CREATE SCHEMA "{schema}"')
        connection.execute(sql.rename(first + job, schema))  # type: ignore[arg-type]
    async with opened(schema) as store:
        await work(store)
        assert await spans(store) == [None] * 12
        events = (await store.events()).events
        assert [(e.id, e.transition) for e in events if e.id == "old"] == [
            ("old", each) for each in ("enqueue", "claim", "complete")
        ]
        (info,) = await store.queues()
        assert info.counts["completed"] == 4
