"""`format("holdfast")`: a store's tables as DataFrames, on every store."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import astuple
from pyspark.sql import DataFrame, SparkSession
from spark_places import KINDS, Filled, Shop, fresh
from spoil import spoil_event, spoil_job

from holdfast import Event
from holdfast.errors import ConfigError
from holdfast.spark.read.arrow import stored_columns
from holdfast.spark.read.options import parse
from holdfast.spark.store_url import reachable, require_machine
from holdfast.store.scan import EVENT_COLUMNS, JOB_COLUMNS, open_scan


@pytest.fixture(scope="module", params=KINDS)
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Filled:
    return Filled(fresh(request.param, tmp_path_factory.mktemp("filled")))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    return Filled(fresh("sqlite", tmp_path_factory.mktemp("file")))


def table(spark: SparkSession, url: str, name: str, **options: Any) -> DataFrame:
    return spark.read.format("holdfast").options(url=url, table=name, **options).load()


def test_each_table_has_the_rows_of_the_store(spark: SparkSession, filled: Filled) -> None:
    events = table(spark, filled.url, "events").collect()
    assert len(events) == len(filled.events)
    found = {
        (row.queue, row.id, row.run, row.transition, row.attempt, row.at.replace(tzinfo=UTC), tuple(row.tags))
        for row in events
    }
    assert found == {
        (event.queue, event.id, event.run, event.transition, event.attempt, _time(event.at_ms), event.tags)
        for event in filled.events
    }
    jobs = {(row.queue, row.id): row for row in table(spark, filled.url, "jobs").collect()}
    assert len(jobs) == len(filled.jobs)
    for job in filled.jobs:
        row = jobs[job.queue, job.id]
        assert (row.state, row.payload, row.result, row.headers) == (job.state, job.payload, job.result, job.headers)
        assert tuple(row.tags) == job.tags
        assert row.enqueued_at.replace(tzinfo=UTC) == job.enqueued_at
        assert (row.position, row.chain_state, row.blockers) == (job.position, job.chain_state, job.blockers)
        assert (tuple(row.chain) if row.chain else None) == (astuple(job.chain) if job.chain else None)
        assert (
            (row.error.type, row.error.message) == (job.error.type, job.error.message) if job.error else not row.error
        )
        assert (row.progress, row.message) == (
            (job.progress.fraction, job.progress.message) if job.progress else (None, None)
        )


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_cannot_be_read_hide_no_other(spark: SparkSession, kind: str, tmp_path: Path) -> None:
    url = fresh(kind, tmp_path)
    shop = Shop(url)

    async def spoil() -> None:
        async with shop.app:
            await shop.live()
            await spoil_job(shop.app, "mail", "later")
            await spoil_event(shop.app, "mail", "not")

    asyncio.run(spoil())
    jobs = {(row.queue, row.id) for row in table(spark, url, "jobs").collect()}
    assert {("mail", "f"), ("mail", "g"), ("mail", "not"), ("bills", "chain"), ("bills", "blocked")} <= jobs
    events = {(row.queue, row.id, row.transition) for row in table(spark, url, "events").collect()}
    assert {("mail", "f", "fail"), ("mail", "later", "enqueue"), ("bills", "chain", "complete")} <= events
    assert table(spark, url, "events", queue="mail").count() > 0


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def test_sql_finds_the_source_by_itself(spark: SparkSession, filled: Filled) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW log USING holdfast OPTIONS (url '{filled.url}', partitions '3')")
    chosen = spark.sql(
        "SELECT id, error_type FROM log WHERE queue = 'mail' AND transition IN ('fail', 'retry') AND attempt >= 1"
        " AND at > '2020-01-01' AND error_type IS NOT NULL AND id LIKE 'f%' ORDER BY sequence"
    )
    assert [tuple(row) for row in chosen.collect()] == [("f", "ValueError"), ("f", "ValueError")]


@pytest.mark.parametrize("name", ["events", "jobs", "results"])
def test_rows_that_the_options_leave_out_do_not_leave_the_store(spark: SparkSession, filled: Filled, name: str) -> None:
    whole = [row for row in table(spark, filled.url, name).collect() if row.queue == "mail" and row.id.startswith("c")]
    chosen = table(spark, filled.url, name, queue="mail", idPrefix="c")
    assert sorted(chosen.collect(), key=_key) == sorted(whole, key=_key)
    assert _rows_out_of_the_scan(chosen) == len(whole) > 0


def _key(row: Any) -> tuple[Any, ...]:
    return row.queue, row.id, row.run, row.sequence if "sequence" in row else 0


def _rows_out_of_the_scan(frame: DataFrame) -> int:
    """Return how many rows Python gave to Spark, by Spark's own count."""
    plan = frame._jdf.queryExecution().executedPlan()
    while plan.children().size():
        plan = plan.children().head()
    return int(plan.metrics().get("numOutputRows").get().value())


def test_results_are_finished_jobs(spark: SparkSession, file: Filled) -> None:
    rows = table(spark, file.url, "results").where("state <> 'cancelled'").collect()
    over = {(job.id, job.state): job.result for job in file.jobs if job.state in ("completed", "failed")}
    assert {(row.id, row.state): row.result for row in rows} == over


def test_a_range_of_positions_is_read_exactly(spark: SparkSession, tmp_path: Path) -> None:
    url = fresh("sqlite", tmp_path)

    async def live() -> tuple[str, str]:
        shop, scan = Shop(url), open_scan(url)
        async with shop.app:
            await shop.bills(5)
            after = scan.end()
            await shop.bills(7)
            upto = scan.end()
            await shop.bills(3)
            scan.close()
        return after, upto

    after, upto = asyncio.run(live())
    assert table(spark, url, "events", after=after, asOf=upto).count() == 7


def test_an_error_reaches_the_caller(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="option 'tabel' is not one of this source; known are url, table"):
        spark.read.format("holdfast").options(url="sqlite:///x.db", tabel="jobs").load().collect()
    with pytest.raises(Exception, match="is not there; check the path"):
        table(spark, f"sqlite:///{tmp_path}/none.db", "jobs").collect()


def test_a_column_that_no_store_has_by_itself(spark: SparkSession, filled: Filled) -> None:
    said = [job.id for job in filled.jobs if job.progress and job.progress.message == "give up"]
    assert [row.id for row in table(spark, filled.url, "jobs").where("message = 'give up'").collect()] == said == ["g"]
    assert table(spark, filled.url, "jobs").where("message IS NULL AND queue = 'mail'").count() == 2


def test_the_row_of_a_gap_meets_the_filters_like_any_other(spark: SparkSession, tmp_path: Path) -> None:
    url = fresh("sqlite", tmp_path)
    events = table(spark, url, "events", after="other:1", failOnDataLoss="false")

    async def live() -> None:
        async with Shop(url).app:
            pass

    asyncio.run(live())
    assert [row.transition for row in events.collect()] == ["gap"]
    assert events.where("transition = 'complete'").count() == 0


# --- without Spark


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "option 'url' is missing: .* CREATE TEMPORARY VIEW"),
        ({"url": "x", "table": "rows"}, "option table='rows' is none of events, jobs, results"),
        ({"url": "x", "partitions": "0"}, "option partitions='0': a whole number from 1"),
        ({"url": "x", "failOnDataLoss": "hide"}, "option failOnDataLoss='hide' is none of true, false"),
        ({"url": "x", "table": "jobs", "after": "1"}, "option 'after' is for the table events"),
        ({"url": "x", "maxEventsPerTrigger": "9"}, "are for spark.readStream"),
        ({"url": "memory://"}, "cannot see this one's memory"),
    ],
)
def test_an_option_that_cannot_be_right_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(options)


def test_only_events_are_streamed() -> None:
    with pytest.raises(ConfigError, match="only events can be streamed"):
        parse({"url": "x", "table": "jobs"}, stream=True)
    with pytest.raises(ConfigError, match="a stream has no end"):
        parse({"url": "x", "asOf": "1"}, stream=True)


def test_a_file_is_the_same_in_every_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert reachable("sqlite:///a b.db?history=5") == f"sqlite:///{tmp_path}/a%20b.db?history=5"
    assert reachable("redis://localhost") == "redis://localhost"


def test_a_file_is_not_read_on_another_machine() -> None:
    require_machine("redis://there", "elsewhere")
    with pytest.raises(ConfigError, match="is a file of elsewhere, and this executor is on"):
        require_machine("sqlite:////jobs.db", "elsewhere")


def test_the_schemas_have_every_column_of_the_stores() -> None:
    assert set(stored_columns("events")) == set(EVENT_COLUMNS)
    assert set(stored_columns("jobs")) == set(JOB_COLUMNS)
    assert set(stored_columns("results")) < set(JOB_COLUMNS)
    assert set(Event.__struct_fields__) - {"position", "counters"} < set(EVENT_COLUMNS)
