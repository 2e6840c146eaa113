"""Whole tables, read beside the store: the rows that everybody sees, and the same again from the same positions."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
import servers
from msgspec.structs import astuple
from spark_places import KINDS, Shop, fresh, log_of

from holdfast import Event, LogGap
from holdfast.core.envelope import readable
from holdfast.core.state import State
from holdfast.errors import ConfigError
from holdfast.store.scan import EVENT_COLUMNS, JOB_COLUMNS, Condition, Scan, ScanPart, ScanPlan, open_scan

EVENTS = ScanPlan(table="events", columns=EVENT_COLUMNS)
Opening = Callable[[str], Scan]
JOBS = ScanPlan(table="jobs", columns=JOB_COLUMNS)


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return fresh(request.param, tmp_path)


@pytest.fixture
def scanned() -> Iterator[Callable[[str], Scan]]:
    """Opens scans, which are closed at the end."""
    opened: list[Scan] = []

    def open_one(url: str) -> Scan:
        opened.append(open_scan(url))
        return opened[-1]

    yield open_one
    for scan in opened:
        scan.close()


def plain(values: Any) -> list[Any]:
    return values.to_pylist() if hasattr(values, "to_pylist") else list(values)


def rows_of(scan: Scan, plan: ScanPlan, parts: Sequence[ScanPart] | None = None) -> list[dict[str, Any]]:
    """Return everything that a plan gives, row by row."""
    found = []
    for part in scan.plan(plan) if parts is None else parts:
        for columns in scan.read(plan, part):
            values = [plain(columns[name]) for name in plan.columns]
            found += [dict(zip(plan.columns, row, strict=True)) for row in zip(*values, strict=True)]
    return found


def between(scan: Scan, after: str | None, upto: str | None, **more: Any) -> list[tuple[str, str, int]]:
    """Return which events lie between two positions."""
    names = ("queue", "id", "sequence")
    plan = ScanPlan(table="events", columns=names, after=after, upto=upto, **more)
    return sorted(tuple(row.values()) for row in rows_of(scan, plan))


def told(event: Event) -> dict[str, Any]:
    """Return an event as a row."""
    counters = event.counters
    return {
        "at_ms": event.at_ms, "queue": event.queue, "id": event.id, "run": event.run, "attempt": event.attempt,
        "transition": event.transition, "state": event.state, "cause": event.cause, "task": event.task,
        "worker": event.worker, "key": event.key, "priority": event.priority, "run_at_ms": event.run_at_ms,
        "failures": counters.failures, "stalls": counters.stalls, "timeouts": counters.timeouts,
        "releases": counters.releases, "wait_ms": event.wait_ms, "run_ms": event.run_ms,
        "error_type": event.error_type, "error_signature": event.error_signature, "progress": event.progress,
        "message": event.message, "payload": event.payload, "envelope": event.envelope,
        "actor": event.actor,
    }  # fmt: skip


async def test_every_event_is_as_the_log_tells_it(url: str, scanned: Opening) -> None:
    shop = Shop(url)
    async with shop.app:
        await shop.live()
        events = [told(event) for event in await log_of(shop.app)]
    scan = scanned(url)
    rows = [{**row, "envelope": readable(row["envelope"])} for row in rows_of(scan, EVENTS)]
    assert any(row["envelope"].tags for row in rows)
    assert len({(row["queue"], row.pop("epoch"), row.pop("sequence")) for row in rows}) == len(events)
    by_text = {"key": lambda row: json.dumps(row, default=str, sort_keys=True)}
    assert sorted(rows, **by_text) == sorted(events, **by_text)  # type: ignore[call-overload]
    assert {row["transition"] for row in rows} >= {"claim", "retry", "fail", "progress", "cancel", "complete"}
    assert any(row["payload"] for row in rows)


async def test_every_job_is_as_the_store_shows_it(url: str, scanned: Opening) -> None:
    shop = Shop(url)
    async with shop.app:
        await shop.live()
        jobs = (await shop.app.jobs(limit=1000)).jobs
    rows = {(row["queue"], row["id"]): row for row in rows_of(scanned(url), JOBS)}
    assert len(rows) == len(jobs) > 10
    for job in jobs:
        row = rows[job.queue, job.id]
        plain_names = (
            "run", "task", "state", "priority", "key", "run_at_ms", "enqueued_at_ms", "started_at_ms",
            "finished_at_ms", "expires_at_ms", "worker", "payload", "checkpoint", "result", "position", "chain_state",
            "blockers",
        )  # fmt: skip
        assert {name: row[name] for name in plain_names} == {name: getattr(job, name) for name in plain_names}
        for name in ("attempts", "failures", "stalls", "timeouts", "releases"):
            assert row[name] == getattr(job.counters, name)
        first = tuple(row[name] for name in ("chain_queue", "chain_id", "chain_run"))
        assert first == (astuple(job.chain) if job.chain else (None, None, None))
        assert (bool(row["holds_id"]), bool(row["successor"])) == (job.holds_id, job.successor)
        assert readable(row["envelope"]) == job.envelope
        assert (json.loads(row["error"])["type"] if row["error"] else None) == (job.error.type if job.error else None)
    assert [row["blockers"] for row in rows.values() if row["state"] == "blocked"] == [1]
    assert sorted(row["position"] for row in rows.values() if row["chain_id"] == "chain") == [0, 1]


async def test_between_two_positions_lie_the_same_events_for_ever(url: str, scanned: Opening) -> None:
    shop = Shop(url)
    async with shop.app:
        await shop.bills(30)
        scan = scanned(url)
        positions = [scan.reach(None, 0)]
        batches = []
        for number in range(3):
            await shop.bills(40, start=100 * number)
            await shop.send.enqueue("hello")
            positions.append(scan.end())
            batches.append(between(scan, positions[-2], positions[-1]))
        assert [len(batch) for batch in batches] == [71, 41, 41]
        again = [between(scan, low, high, parts=7, least=5) for low, high in itertools.pairwise(positions)]
        assert again == batches
        assert between(scan, None, positions[-1]) == sorted(itertools.chain(*batches))
        # Both ways of reading the log take each other's positions.
        page = await shop.app.store.events(positions[1])
        assert sorted(event.id for event in page.events) == sorted(id for batch in batches[1:] for _, id, _ in batch)
        assert between(scan, page.position, None) == []


async def test_a_limit_is_kept_and_nothing_is_left_out(url: str, scanned: Opening) -> None:
    shop = Shop(url)
    async with shop.app:
        await shop.bills(50)
        await shop.send.enqueue_many(shop.send.args("x") for _ in range(20))
        scan = scanned(url)
        end = scan.end()
        await shop.bills(5)
        for which in ((), (Condition("queue", "=", "bills"),)):
            at, found = scan.reach(None, 0, which), []
            while (further := scan.reach(at, 7, which, end)) != at:
                batch = between(scan, at, further, which=which)
                assert 0 < len(batch) <= 7
                found += batch
                at = further
            assert sorted(found) == between(scan, None, end, which=which)
            assert len(found) == (50 if which else 70)


@pytest.mark.parametrize(
    ("condition", "chosen"),
    [
        (Condition("id", "=", "f"), lambda row: row["id"] == "f"),
        (Condition("transition", "in", ("fail", "cancel")), lambda row: row["transition"] in ("fail", "cancel")),
        (Condition("id", ">=", "g"), lambda row: row["id"].encode() >= b"g"),
        (Condition("id", "starts", "la"), lambda row: row["id"].startswith("la")),
        (Condition("attempt", ">", 1), lambda row: row["attempt"] > 1),
        (Condition("cause", "null"), lambda row: row["cause"] is None),
        (Condition("error_type", "set"), lambda row: row["error_type"] is not None),
        (Condition("queue", "in", ("mail", "none")), lambda row: row["queue"] == "mail"),
    ],
    ids=lambda each: each.column if isinstance(each, Condition) else "",
)
async def test_a_condition_chooses_events(condition: Condition, chosen: Any, tmp_path: Path, scanned: Opening) -> None:
    for kind in KINDS:
        url = fresh(kind, tmp_path)
        shop = Shop(url)
        async with shop.app:
            await shop.live()
        scan = scanned(url)
        assert scan.takes("events", condition)
        rows = [row for row in rows_of(scan, EVENTS) if chosen(row)]
        assert rows_of(scan, ScanPlan(table="events", columns=EVENT_COLUMNS, which=(condition,))) == rows
        assert rows


async def test_jobs_are_chosen_by_state_and_id(url: str, scanned: Opening) -> None:
    shop = Shop(url)
    async with shop.app:
        await shop.live()
    which = (Condition("state", "in", (str(State.FAILED), str(State.SCHEDULED))), Condition("id", "<", "g"))
    assert [row["id"] for row in rows_of(scanned(url), ScanPlan(table="jobs", columns=("id",), which=which))] == ["f"]


@pytest.mark.parametrize("kind", KINDS)
async def test_what_was_trimmed_unread_is_a_gap(kind: str, tmp_path: Path, scanned: Opening) -> None:
    url = fresh(kind, tmp_path, history=10)
    shop = Shop(url)
    async with shop.app:
        await shop.bills(20)
        scan = scanned(url)
        start, middle = scan.reach(None, 0), scan.reach(None, 15)
        plan = ScanPlan(table="events", columns=("id",), after=start)
        parts = scan.plan(plan)
        await shop.app.store.expire("bills")
        with pytest.raises(LogGap, match=r"10 events were trimmed from the log before they could be read") as gap:
            rows_of(scan, plan, parts)
        assert gap.value.missing == 10
        with pytest.raises(LogGap) as gap:
            rows_of(scan, plan)
        assert gap.value.missing == 10
        assert len(between(scan, None, None)) == 10
        assert len(between(scan, middle, None)) == 5


@pytest.mark.parametrize("kind", KINDS)
async def test_a_position_of_another_log_is_a_gap(kind: str, tmp_path: Path, scanned: Opening) -> None:
    shop, other = Shop(fresh(kind, tmp_path)), Shop(fresh(kind, tmp_path))
    async with shop.app, other.app:
        await shop.bills(3)
        await other.bills(3)
        old = scanned(other.app.store.url).end()
        scan = scanned(shop.app.store.url)
        plan = ScanPlan(table="events", columns=("id",), after=old)
        first, *rest = scan.plan(plan)
        with pytest.raises(LogGap, match="the log was reset before they could be read"):
            rows_of(scan, plan, [first])
        assert len(rows_of(scan, plan, rest)) == 3
        assert scan.reach(old, 2) == scan.reach(None, 2)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_position_that_is_none_is_refused(kind: str, tmp_path: Path, scanned: Opening) -> None:
    shop = Shop(fresh(kind, tmp_path))
    async with shop.app:
        with pytest.raises(ConfigError, match="is not one that the event log gave"):
            scanned(shop.app.store.url).reach("nonsense", 1)


async def test_a_transaction_that_was_open_across_many_reads_is_still_read(tmp_path: Path, scanned: Opening) -> None:
    url = fresh("postgresql", tmp_path)
    shop = Shop(url)
    async with shop.app:
        await shop.bills(5)
        scan = scanned(url)
        positions = [scan.reach(None, 0)]
        held = [psycopg.connect(url.partition("?")[0]) for _ in range(2)]
        for number, connection in enumerate(held):
            jobs = [shop.bill.args(each) for each in range(10)]
            await shop.bill.options(connection=connection).enqueue_many(jobs)
            await shop.bills(4, start=number)
            positions.append(scan.end())
        held[0].commit()
        await shop.bills(3)
        positions.append(scan.end())
        planned = scan.plan(ScanPlan(table="events", columns=("sequence",), after=positions[-2], upto=positions[-1]))
        held[1].commit()
        positions.append(scan.end())
        sizes = [len(between(scan, low, high)) for low, high in itertools.pairwise(positions)]
        assert sizes == [9, 4, 13, 10]
        assert len(rows_of(scan, ScanPlan(table="events", columns=("sequence",)), planned)) == 13
        everything = [each for pair in itertools.pairwise(positions) for each in between(scan, *pair, parts=3, least=1)]
        assert sorted(everything) == between(scan, None, None)
        assert len(set(everything)) == 36
        # In small steps, within what was late and beyond it, towards an end that is fixed.
        for end in positions[2:]:
            at, found = positions[1], []
            while (further := scan.reach(at, 3, upto=end)) != at:
                batch = between(scan, at, further)
                assert len(batch) <= 3
                found, at = found + batch, further
            assert sorted(found) == between(scan, positions[1], end)
        for connection in held:
            connection.close()


async def test_a_late_transaction_that_was_trimmed_unread_is_a_gap(tmp_path: Path, scanned: Opening) -> None:
    url = fresh("postgresql", tmp_path, history=4)
    shop = Shop(url)
    async with shop.app:
        await shop.bills(1)
        scan = scanned(url)
        with psycopg.connect(url.partition("?")[0]) as late:
            await shop.bill.options(connection=late).enqueue_many(shop.bill.args(each) for each in range(10))
            await shop.bills(4)
            before = scan.end()
        with psycopg.connect(url.partition("?")[0]) as later:
            await shop.bill.options(connection=later).enqueue(1)
            await shop.bills(1)
            between_them = scan.end()
            await shop.app.store.expire("bills")
            assert (await shop.app.store.events(before)).gap == 1
            for upto in (None, between_them):
                with pytest.raises(LogGap, match="1 events were trimmed") as gap:
                    rows_of(scan, ScanPlan(table="events", columns=("id",), after=before, upto=upto))
                assert gap.value.missing == 1, "one for the transaction: nobody knows how many events it had"
        assert len(between(scan, between_them, None)) == 1, "what is still there is read"


@pytest.mark.parametrize("kind", KINDS)
async def test_positions_taken_while_others_write_miss_nothing(kind: str, tmp_path: Path, scanned: Opening) -> None:
    url = fresh(kind, tmp_path)
    shop = Shop(url)
    async with shop.app:
        await shop.bills(1)
        scan, batches = scanned(url), []
        positions = [scan.reach(None, 0)]
        writers = [asyncio.create_task(_write(shop, number)) for number in range(4)]
        while not all(writer.done() for writer in writers):
            end = await asyncio.to_thread(scan.end)
            batches.append(await asyncio.to_thread(between, scan, positions[-1], end))
            positions.append(end)
        await asyncio.gather(*writers)
        positions.append(scan.end())
        batches.append(between(scan, *positions[-2:]))
        assert [between(scan, low, high) for low, high in itertools.pairwise(positions)] == batches
        assert sorted(itertools.chain(*batches)) == between(scan, None, None)
        assert len(await log_of(shop.app)) == sum(map(len, batches)) == 1 + 4 * 30


async def _write(shop: Shop, number: int) -> None:
    for each in range(30):
        await shop.bill.enqueue(each + number)


async def test_conditions_on_one_column_all_hold(url: str, scanned: Opening) -> None:
    shop = Shop(url)
    async with shop.app:
        await shop.bills(3)
        await shop.send.enqueue("x")
    scan, mail = scanned(url), Condition("queue", "=", "mail")
    assert between(scan, None, None, which=(mail, Condition("queue", "in", ("bills", "other")))) == []
    assert len(between(scan, None, None, which=(Condition("queue", ">", "bills"),))) == 1
    assert len(rows_of(scan, ScanPlan(table="jobs", columns=("id",), which=(mail, Condition("queue", "<", "n"))))) == 1


async def test_a_queue_that_has_forgotten_most_of_its_runs_is_read_whole(tmp_path: Path, scanned: Opening) -> None:
    url = fresh("redis", tmp_path)
    shop = Shop(url)
    async with shop.app:
        brief = shop.bill.options(result_ttl=0)
        await brief.enqueue_many(brief.args(number) for number in range(40))
        await shop.app.worker(["bills"]).run(burst=True)
        await shop.app.store.expire("bills")
        await shop.bills(3)
    scan = scanned(url)
    assert [getattr(part, "all", None) for part in scan.plan(JOBS)] == [True, False], "and queues that are yet to come"
    assert len(rows_of(scan, JOBS)) == 3


async def test_a_cluster_is_read_node_by_node(scanned: Opening) -> None:
    binary = servers.valkey_binary() or servers.redis_binary()
    assert binary is not None
    url = f"{servers.cluster(binary).url}?namespace=spark{os.getpid()}"
    shop = Shop(url)
    async with shop.app:
        await shop.live()
        events = await log_of(shop.app)
    scan = scanned(url)
    assert len(between(scan, None, scan.end())) == len(events)
    assert len(rows_of(scan, JOBS)) == 20


async def test_a_page_that_is_too_large_for_one_text_is_read_in_halves(tmp_path: Path, scanned: Opening) -> None:
    url = fresh("sqlite", tmp_path)
    shop = Shop(url)
    async with shop.app:
        await shop.app.queue("bills").set(history="payloads")
        await shop.bills(50)
    scan: Any = scanned(url)
    assert len(rows_of(scan, EVENTS)) == 51, "and that the queue was set"
    scan._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 3000)
    payloads = [row["payload"] for row in rows_of(scan, EVENTS)]
    assert payloads == [None, *(b'{"number":%d}' % number for number in range(50))]
