"""The options choose in the store, and each action of a frame sees the store as it is then."""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import Row
from spark_places import KINDS, Filled, Shop, fresh

from holdfast.errors import ConfigError
from holdfast.spark.read.broken_pipe import expect_broken_pipes
from holdfast.spark.read.options import parse
from holdfast.spark.read.where import conditions
from holdfast.store.scan import Condition, ScanPlan, open_scan


@pytest.fixture(scope="module", params=KINDS)
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Filled:
    return Filled(fresh(request.param, tmp_path_factory.mktemp("pruned")))


def load(spark: SparkSession, url: str, table: str, **options: Any) -> DataFrame:
    return spark.read.format("holdfast").options(url=url, table=table, **options).load()


def rows_out_of_the_scan(frame: DataFrame) -> int:
    """Return how many rows Python gave to Spark, by Spark's own count."""
    plan = frame._jdf.queryExecution().executedPlan()
    while plan.children().size():
        plan = plan.children().head()
    return int(plan.metrics().get("numOutputRows").get().value())


def instant(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()


@pytest.mark.parametrize(
    ("table", "where", "chosen"),
    [
        ("events", "transition = 'claim' AND attempt >= 1", lambda row: row.transition == "claim"),
        ("events", "transition in ('fail', 'retry') and error_type is not null", lambda row: row.error_type),
        ("events", "id LIKE 'la%'", lambda row: row.id.startswith("la")),
        ("jobs", "state = 'failed'", lambda row: row.state == "failed"),
        ("jobs", "finished_at IS NULL AND queue == 'mail'", lambda row: not row.finished_at and row.queue == "mail"),
        ("jobs", "priority > 0", lambda row: row.priority > 0),
        ("results", "state <= 'completed'", lambda row: row.state in ("cancelled", "completed")),
        ("jobs", "key = '''single'''", lambda row: row.key == "'single'"),
    ],
)
def test_where_chooses_what_plain_python_would(
    spark: SparkSession, filled: Filled, table: str, where: str, chosen: Callable[[Row], object]
) -> None:
    expected = sorted(str(row) for row in load(spark, filled.url, table).collect() if chosen(row))
    found = load(spark, filled.url, table, where=where)
    assert sorted(map(str, found.collect())) == expected != []
    assert rows_out_of_the_scan(found) == len(expected)


def test_columns_are_all_that_a_frame_has(spark: SparkSession, filled: Filled) -> None:
    frame = load(spark, filled.url, "jobs", columns="state, id ,tags")
    assert frame.columns == ["id", "state", "tags"]
    assert {(row.id, row.state, tuple(row.tags)) for row in frame.collect()} == {
        (job.id, job.state, job.tags) for job in filled.jobs
    }
    assert load(spark, filled.url, "events", columns="missing").count() == len(filled.events)
    assert sorted({row.queue for row in load(spark, filled.url, "events", columns="queue").collect()}) == [
        "bills", "mail",
    ]  # fmt: skip


def test_a_time_and_runs_and_queues(spark: SparkSession, filled: Filled) -> None:
    times = sorted(event.at_ms for event in filled.events)
    since, until = times[len(times) // 3], times[2 * len(times) // 3]
    found = load(spark, filled.url, "events", since=instant(since), until=instant(until))
    assert found.count() == sum(since <= each < until for each in times)
    runs = load(spark, filled.url, "jobs", runs="2-4", queues="mail, none")
    assert {row.run for row in runs.collect()} == {
        job.run for job in filled.jobs if job.queue == "mail" and 2 <= job.run <= 4
    }
    assert load(spark, filled.url, "events", queues="none").count() == 0


@pytest.mark.parametrize("kind", KINDS)
def test_each_action_sees_the_store_as_it_is_then(spark: SparkSession, kind: str, tmp_path: Path) -> None:
    url = fresh(kind, tmp_path)
    shop = Shop(url)

    async def bills(count: int, queue: str | None = None) -> str:
        async with shop.app:
            await shop.bills(count)
            if queue is not None:
                await shop.app.queue(queue).enqueue({})
            scan = open_scan(url)
            try:
                return scan.end()
            finally:
                scan.close()

    asyncio.run(bills(3))
    events, jobs = load(spark, url, "events"), load(spark, url, "jobs")
    assert (events.count(), jobs.count()) == (3, 3)
    then = asyncio.run(bills(4, "young"))
    before = load(spark, url, "events", as_of=then)
    assert (events.count(), jobs.count(), before.count()) == (8, 8, 8)
    asyncio.run(bills(2))
    assert (events.count(), jobs.count(), before.count()) == (10, 10, 8)
    both = events.groupBy("queue").count().withColumnRenamed("count", "of")
    assert {row.queue: row.of for row in both.collect()} == {"bills": 9, "young": 1}
    assert {row.transition for row in events.unionByName(events).collect()} == {"enqueue"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("table", ["events", "jobs"])
async def test_shares_are_as_many_and_as_even_as_was_asked(kind: str, table: Any, tmp_path: Path) -> None:
    url = fresh(kind, tmp_path)
    shop = Shop(url)
    async with shop.app:
        await shop.bills(40)
    plan = ScanPlan(table=table, columns=("id",), which=(Condition("queue", "=", "bills"),), parts=4, least=1)
    scan = open_scan(url)
    try:
        sizes = [sum(len(page["id"]) for page in scan.read(plan, part)) for part in scan.plan(plan)]
    finally:
        scan.close()
    assert sizes == [10, 10, 10, 10]


@pytest.mark.parametrize("kind", KINDS)
async def test_shares_of_runs_that_are_not_wanted_are_not_planned(kind: str, tmp_path: Path) -> None:
    url = fresh(kind, tmp_path)
    shop = Shop(url)
    async with shop.app:
        await shop.bills(40)
    which = (Condition("queue", "=", "bills"), Condition("run", ">", 10), Condition("run", "<=", 30))
    plan = ScanPlan(table="jobs", columns=("run",), which=which, parts=4, least=1)
    scan = open_scan(url)
    try:
        found = [[run for page in scan.read(plan, part) for run in page["run"]] for part in scan.plan(plan)]
    finally:
        scan.close()
    assert [len(runs) for runs in found] == [5, 5, 5, 5]
    assert sorted(run for runs in found for run in runs) == list(range(11, 31))


# --- without Spark


def test_options_are_conditions() -> None:
    parsed = parse(
        {"url": "x", "table": "jobs", "QUEUES": "a,b", "id_prefix": "c", "runs": "7-", "where": "attempts = 2"}
    )
    assert parsed.which == (
        Condition("queue", "in", ("a", "b")),
        Condition("id", "starts", "c"),
        Condition("run", ">=", 7),
        Condition("attempts", "=", 2),
    )
    assert parsed.queues == ("a", "b")
    assert parse({"url": "x", "runs": "7"}).which == (Condition("run", ">=", 7), Condition("run", "<=", 7))
    assert parse({"url": "x", "until": "2026-01-01"}).which == (Condition("at_ms", "<", 1767225600000),)


def test_conditions_are_those_of_the_text() -> None:
    assert conditions("at >= '2026-01-01T01:00:00+01:00' AND run IN (1, 2) AND cause IS NULL", "events") == (
        Condition("at_ms", ">=", 1767225600000),
        Condition("run", "in", (1, 2)),
        Condition("cause", "null"),
    )
    assert conditions("progress < 0.5", "events") == (Condition("progress", "<", 0.5),)


@pytest.mark.parametrize(
    ("table", "where", "why"),
    [
        ("jobs", "state = 'failed' OR state = 'completed'", "'OR' stands where AND, or the end, should"),
        ("jobs", "stat = 'failed'", "jobs has no column 'stat'"),
        ("jobs", "tags = 'a'", "the store cannot choose by 'tags'"),
        ("jobs", "holds_id = true", "the store cannot choose by 'holds_id'"),
        ("jobs", "progress > 0.5", "the store cannot choose by 'progress'"),
        ("jobs", "run = 'x'", "'x' is no bigint, as 'run' is"),
        ("jobs", "state = failed", "failed is no string, as 'state' is"),
        ("jobs", "state LIKE '%ed'", "LIKE is for the beginning of a text"),
        ("jobs", "run", "it ends in the middle"),
        ("jobs", "run IN (1, 2", "it ends in the middle|ends with \\)"),
        ("jobs", "run ~ 1", "'~' is none of its signs"),
        ("jobs", "run state 1", "'state' stands where a comparison should"),
        ("events", "at > 'yesterday'", "an instant such as"),
        ("events", "at > '2026-01-01T00:00:00.000001'", "stores keep milliseconds"),
    ],
)
def test_what_a_store_cannot_choose_by_is_for_spark(table: Any, where: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        parse({"url": "x", "table": table, "where": where})


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"columns": "id,none"}, "events has no column 'none'; it has epoch, sequence"),
        ({"columns": " , "}, "option columns=' , ': names, with commas between them"),
        ({"runs": "a-b"}, "option runs='a-b': a run or a range of them"),
        ({"runs": "-"}, "option runs='-'"),
        ({"runs": "5-3"}, "option runs='5-3': no run has such a number, or the last comes before the first"),
        ({"runs": "99999999999999999999-"}, "no run has such a number"),
        ({"where": "run > 99999999999999999999"}, "99999999999999999999 is no bigint, as 'run' is"),
        ({"since": "2026-11-18T12:00:00Z", "until": "2026-11-18T11:00:00Z"}, "the time ends before it begins"),
        ({"partitions": "²"}, "option partitions='²': a whole number from 1"),
        ({"since": "noon"}, "option since: an instant such as 2026-11-18T09:30:00Z, not 'noon'"),
        ({"table": "jobs", "as_of": "1"}, "option 'asOf' is for the table events"),
    ],
)
def test_wrong_options(options: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        parse({"url": "x", **options})


def test_a_pipe_that_spark_closes_is_not_worth_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon = ModuleType("__main__")
    daemon.__spec__ = ModuleSpec("pyspark.daemon", None)
    daemon.traceback = traceback  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "__main__", daemon)
    expect_broken_pipes()
    expect_broken_pipes()
    for error in (BrokenPipeError(32, "Broken pipe"), ValueError("shown")):
        try:
            raise error
        except Exception:
            daemon.traceback.print_exc()
    said = capsys.readouterr().err
    assert "ValueError: shown" in said
    assert "BrokenPipe" not in said
    assert daemon.traceback.format_exc is traceback.format_exc


def test_no_other_process_is_touched() -> None:
    before = vars(sys.modules["__main__"]).get("traceback")
    expect_broken_pipes()
    assert vars(sys.modules["__main__"]).get("traceback") is before
