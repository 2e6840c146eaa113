"""The lake tells what happened: every row and figure is worked out again in plain Python, from the events."""

from __future__ import annotations

import dataclasses
import os
import random
import shutil
import time
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from operator import itemgetter
from pathlib import Path
from typing import Any

import duckdb
import pytest
from history import History
from lake_check import check, check_store, rows, sequence
from pyspark.sql import DataFrame, SparkSession

from holdfast import ConfigError, Holdfast, LakeBusy
from holdfast.spark.lake import Lake
from holdfast.spark.lake import event_log as reading
from holdfast.spark.lake.batches import BatchLog, LakeBatch
from holdfast.spark.lake.delta_table import query
from holdfast.spark.lake.event_log import EventLog, SharedLog, StoreLog
from holdfast.spark.lake.frames import read
from holdfast.spark.lake.opening import open_tables
from holdfast.spark.lake.replay import LakeReplay, ReplayResult
from holdfast.spark.lake.report import html_page, make_report
from holdfast.spark.lake.report.views import VIEWED, VIEWS, view_statements
from holdfast.spark.lake.schemas import LAKE_TABLES
from holdfast.spark.lake.steps import STEPS
from holdfast.spark.lake.vacuum import vacuum

ZONE = "spark.sql.session.timeZone"
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def told(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, History]]:
    """A lake of a SQLite store, made in three batches."""
    folder = tmp_path_factory.mktemp("lake")
    with History("sqlite", folder) as history:
        lake = Lake(folder / "lake", history.app, spark)
        for _ in range(2):
            history.go_on()
            done = lake.read_new()
            assert done is not None
            assert done.missing == 0
            history.rest(3700)
        assert lake.read_new() is not None, "results have expired"
        assert lake.read_new() is None, "nothing has happened since"
        yield lake.path, history


def test_every_figure_is_that_of_the_events(told: tuple[Path, History]) -> None:
    lake, history = told
    assert {("operate", "ann"), ("cancel", "ann")} <= {
        (row["transition"], row["actor"]) for row in rows(lake, "events")
    }
    check(lake, history.events())
    check_store(lake, history.jobs())


def test_bronze_has_the_rows_that_a_frame_of_the_log_has(spark: SparkSession, told: tuple[Path, History]) -> None:
    """Tasks that read the log write them without Spark; a log of another kind gives a frame."""
    lake, history = told
    log = StoreLog(history.app)
    assert isinstance(log, SharedLog)
    news = log.news(None, 1_000_000)
    assert news is not None
    own = spark.newSession()
    own.conf.set(ZONE, "UTC")
    frame = log.frame(own, None, news.upto).drop("missing").selectExpr("*", "CAST(at AS date) AS day").toArrow()
    wanted = sorted(frame.to_pylist(), key=itemgetter("sequence"))
    found = sorted(rows(lake, "events"), key=itemgetter("sequence"))
    assert {row.pop("batch") for row in found} == {1, 2, 3}
    assert found == wanted


@pytest.mark.parametrize("kind", ["redis", "postgresql"])
def test_the_other_stores_end_in_the_same_lake(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    elsewhere = spark.newSession()
    elsewhere.conf.set(ZONE, "America/New_York")
    with History(kind, tmp_path, seed=2) as history:
        for session in (elsewhere, spark):  # days and minutes are those of UTC, whatever else a session is for
            history.go_on()
            lake = Lake(tmp_path / "a {lake}*", history.app, session)
            lake.read_new()
        check(lake.path, history.events())
        check_store(lake.path, history.jobs())
    assert elsewhere.conf.get(ZONE) == "America/New_York"


class Killed(BaseException):
    """The run ends here, as if by kill -9: all that is left is on the disk."""


def test_killed_at_any_point_nothing_is_lost_and_nothing_doubled(spark: SparkSession, tmp_path: Path) -> None:
    with History("sqlite", tmp_path) as history:
        history.go_on(60)
        Lake(tmp_path / "lake", history.app, spark).read_new()
        history.go_on(60)
        for point in STEPS:

            def kill(reached: str, point: str = point) -> None:
                if reached == point:
                    raise Killed

            with pytest.raises(Killed):
                Lake(tmp_path / "lake", history.app, spark, kill).read_new()
            if point == "planned":
                history.go_on(20)  # what comes later is not for this batch
        lake = Lake(tmp_path / "lake", history.app, spark)
        lake.read_new()
        check(lake.path, history.events())
        assert sorted(row["batch"] for row in rows(lake.path, "batches")) == [1, 2, 3]


def test_events_that_come_late_or_twice_end_right(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with History("sqlite", tmp_path, seed=3) as history:
        real = reading.events_between
        later = random.Random(3)
        parts: list[list[int] | None] = [[number for number in range(1, 1000) if later.random() < 0.6], None]

        def between(spark: SparkSession, url: str, after: str | None, upto: str) -> DataFrame:
            """The first batch lacks two events of five; the second brings everything, and all of it twice."""
            all_of_it, part = real(spark, url, None, upto), parts.pop(0)
            chosen = all_of_it if part is None else all_of_it.where(all_of_it.sequence.isin(part))
            return chosen.union(chosen)

        def planned(self: BatchLog, log: EventLog, last: LakeBatch | None, most: int) -> LakeBatch | None:
            """As after a reset, from when on events are looked at for doubles."""
            batch = plan(self, log, last, most)
            return batch and dataclasses.replace(batch, again=True)

        plan = BatchLog.next
        monkeypatch.setattr(BatchLog, "next", planned)
        monkeypatch.setattr(reading, "events_between", between)
        history.go_on(70)
        for _ in range(2):
            lake = Lake(tmp_path / "lake", history.app, spark)
            assert lake.read_new() is not None
            history.go_on(12)
        events = history.events()
        upto = max(row["sequence"] for row in rows(lake.path, "events"))
        check(lake.path, [event for event in events if sequence(event) <= upto])


def test_what_was_trimmed_unread_is_a_gap_that_is_told(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with History("sqlite", tmp_path, history=5) as history:
        lake = Lake(tmp_path / "lake", history.app, spark)
        history.go_on(10)
        lake.read_new()
        history.go_on(60)
        made = sequence(history.events()[-1])
        history.rest(1)
        done = lake.read_new()
        assert done is not None
        assert done.missing > 0
        bronze = rows(lake.path, "events")
        assert len(bronze) + done.missing == made
        assert [(row["batch"], row["missing"]) for row in rows(lake.path, "gaps")] == [(2, done.missing)]
        assert f"{done.missing:,} events are missing" in caplog.text
        of_runs = [row for row in bronze if row["transition"] != "operate"]
        assert len(rows(lake.path, "jobs")) == len({(row["queue"], row["id"], row["run"]) for row in of_runs})


def test_a_store_that_was_restored_from_a_backup_doubles_nothing(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with History("sqlite", tmp_path) as history:
        history.go_on(20)
        file = next(tmp_path.glob("*.db"))
        events = history.events()
        Lake(tmp_path / "lake", history.app, spark).read_new()
    # Closed, all of it is in the one file.
    backup = shutil.copy(file, tmp_path / "backup")
    with History("sqlite", tmp_path, url=history.url, at=history.clock, seed=4) as history:
        history.go_on(20)
        events += history.events()
        Lake(tmp_path / "lake", history.app, spark).read_new()
    shutil.copy(backup, file)
    with History("sqlite", tmp_path, url=history.url, at=history.clock, seed=9) as history:
        history.clock.advance(60)
        history.go_on(2)
        events += history.events()
        lake = Lake(tmp_path / "lake", history.app, spark)
        lake.read_new()
    assert "it was reset" in caplog.text
    assert [row["missing"] for row in rows(lake.path, "gaps")] == [None]
    wanted = {(event.at_ms, event.queue, event.id, event.run, event.attempt, event.transition) for event in events}
    assert len(rows(lake.path, "events")) == len(wanted)


def test_two_runs_at_once_do_no_harm(spark: SparkSession, tmp_path: Path) -> None:
    with History("sqlite", tmp_path) as history:
        history.go_on(30)
        second = Lake(tmp_path / "lake", history.app, spark)

        def meanwhile(reached: str) -> None:
            if reached == "events written":
                second.read_new()

        first = Lake(tmp_path / "lake", history.app, spark, meanwhile)
        with pytest.raises(LakeBusy, match="another process has just written to this lake"):
            first.read_new()
        assert first.read_new() is None
        check(first.path, history.events())


def test_a_lake_belongs_to_one_store(spark: SparkSession, told: tuple[Path, History], tmp_path: Path) -> None:
    lake = shutil.copytree(told[0], tmp_path / "copy")
    with (
        History("redis", tmp_path) as history,
        pytest.raises(ConfigError, match="copy is the lake of another store than redis://"),
    ):
        Lake(lake, history.app, spark).read_new()


def test_a_lake_is_a_folder(spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match="the lake 's3:/bucket/lake': give a URL as text"):
        Lake(Path("s3://bucket/lake"), Holdfast("memory://"), spark)
    with pytest.raises(ConfigError, match="the lake 'ftp://host/lake': give a folder, or object storage by one of s3"):
        Lake("ftp://host/lake", Holdfast("memory://"), spark)
    with pytest.raises(ConfigError, match=r"cannot lie below a name with '\[' in it"):
        Lake("lake[1]", Holdfast("memory://"), spark)


def test_the_reference_names_every_table_and_column() -> None:
    text = (Path(__file__).parents[2] / "docs" / "reference" / "lake.md").read_text()
    for schema in LAKE_TABLES:
        section = text.split(f"### `{schema.name}`\n")[1].split("###")[0]
        assert [line.split("`")[1] for line in section.splitlines() if line.startswith("| `")] == schema.names


# --- looking, tidying, replaying: without Spark


def test_a_report_says_what_the_tables_say(told: tuple[Path, History]) -> None:
    lake, history = told
    events = history.events()
    found = make_report(lake)
    assert {row["queue"]: row["completed"] for row in found.queues} == {
        queue: sum(event.queue == queue and event.transition == "complete" for event in events)
        for queue in ("mail", "images")
    }
    assert sum(row["count"] for row in found.errors) == sum(event.error_signature is not None for event in events)
    assert found.period is not None
    assert found.read_at is not None
    end = min(found.period.until, found.read_at)
    ran = [(row["ended_at"] or end) - row["started_at"] for row in rows(lake, "attempts") if row["worker"] is not None]
    assert sum(row["busy_ms"] for row in found.workers) == sum(ran, timedelta()) / timedelta(milliseconds=1)
    assert sum(row["jobs"] for row in found.backlog) == sum(not job.state.finished for job in history.jobs())
    assert found.first is not None
    assert "no good" in {row["message"] for row in found.errors}
    late = make_report(lake, found.first + timedelta(minutes=2))
    assert late.first == found.first + timedelta(minutes=2)
    assert sum(row["enqueued"] for row in late.queues) < sum(row["enqueued"] for row in found.queues)


def test_the_views_of_the_report_say_the_same_in_spark_and_in_duckdb(
    spark: SparkSession, told: tuple[Path, History]
) -> None:
    tables = open_tables(told[0])
    own = spark.newSession()
    own.conf.set(ZONE, "UTC")
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        for name in VIEWED:
            database.register(name, query({name: tables[name]}, f"SELECT * FROM {name}"))
            read(own, tables[name], tables[name].files()).createOrReplaceTempView(name)
        for statement in view_statements():
            database.execute(statement)
            own.sql(statement)
        for name in VIEWS:
            wanted = database.sql(f"SELECT * FROM {name}").to_arrow_table().to_pylist()
            assert _plain(own.table(name).toArrow().to_pylist()) == _plain(wanted) != []


def _plain(found: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Return rows in an order of their own, with numbers as both engines can show them."""
    return sorted(
        tuple(f"{float(each):.6g}" if isinstance(each, int | float | Decimal) else str(each) for each in row.values())
        for row in found
    )


def test_the_page_needs_nothing_from_elsewhere(told: tuple[Path, History]) -> None:
    shown = html_page(make_report(told[0]))
    assert "<svg" in shown
    assert "mail: jobs" in shown
    assert "ValueError" in shown
    assert "prefers-color-scheme: dark" in shown
    for word in ("<script", "http:", "https:", "src=", "url("):
        assert word not in shown


def test_a_folder_that_is_no_lake_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no lake: name its folder with --path"):
        make_report(tmp_path)


def test_vacuum_makes_large_files_and_removes_what_nobody_needs(told: tuple[Path, History], tmp_path: Path) -> None:
    lake = shutil.copytree(told[0], tmp_path / "copy")
    orphan = lake / "events" / "b000000009-dead" / "day=2026-01-01" / "part-0.parquet"
    orphan.parent.mkdir(parents=True)
    shutil.copy(next((lake / "events").rglob("*.parquet")), orphan)
    vacuum(lake, timedelta(minutes=59))
    done = {each.table: each for each in vacuum(lake, timedelta(0))}
    assert done["jobs"].removed > 0
    assert orphan.exists(), "a run that is at work may have written it just now"
    for path in (orphan, orphan.parent, orphan.parent.parent):
        os.utime(path, (time.time() - 25 * 3600,) * 2)
    vacuum(lake, timedelta(0))
    assert not orphan.parent.parent.exists()
    assert done["batches"].files_after == 1
    check(lake, told[1].events())


def test_a_vacuum_beside_a_run_takes_nothing_from_it(spark: SparkSession, tmp_path: Path) -> None:
    with History("sqlite", tmp_path) as history:
        history.go_on(30)
        Lake(tmp_path / "lake", history.app, spark).read_new()
        history.go_on(30)
        written: list[str] = []

        def meanwhile(reached: str) -> None:
            if reached.endswith(" written"):
                own = list((tmp_path / "lake" / reached.split()[0]).glob("b000000002*/**/*.parquet"))
                vacuum(tmp_path / "lake", timedelta(0))
                assert own
                assert all(path.exists() for path in own), reached
                written.append(reached)

        lake = Lake(tmp_path / "lake", history.app, spark, meanwhile)
        for _ in STEPS:
            try:
                if lake.read_new() is None:
                    break
            except LakeBusy:
                pass  # it has tidied a table that the run was to commit to
        assert set(written) == {"events written", "attempts written", "jobs written"}
        check(lake.path, history.events())


def test_a_replay_enqueues_each_job_once_and_says_what_it_lacks(told: tuple[Path, History]) -> None:
    lake, history = told
    where = "state IN ('completed', 'failed') AND queue = 'mail'"

    def replay(**options: Any) -> ReplayResult:
        return history.app.sync(LakeReplay(lake, history.app, options.pop("name", "")).run(where, **options))

    chosen = [row for row in rows(lake, "jobs") if row["queue"] == "mail" and row["state"] in ("completed", "failed")]
    kept = {(job.id, job.run) for job in history.jobs() if job.queue == "mail"}
    ready = [row for row in chosen if (row["id"], row["run"]) in kept]
    assert 0 < len(ready) < len(chosen)
    would = replay(dry_run=True)
    assert (would.chosen, would.counts.queued, len(would.lacking)) == (
        len(chosen),
        len(ready),
        len(chosen) - len(ready),
    )
    done = replay()
    assert done.counts.queued == len(ready)
    row = ready[0]
    new = next(job for job in history.jobs() if job.id == f"{row['id']}~{row['run']}")
    assert new.headers["holdfast-replay-of"] == f"mail/{row['id']}#{row['run']}"
    assert (new.key, new.priority, new.task) == (row["key"], row["priority"], row["task"])
    lost = history.app.sync(LakeReplay(lake, history.app).run("queue = 'images' AND state = 'completed'"))
    assert lost.counts.queued > 0
    assert lost.lacking == [], "the lake has the payloads of this queue"
    made = {job.id: job.payload for job in history.jobs()}
    for _, old, new_id in lost.ids:
        assert made[new_id] in (old.partition("-")[2].encode(), b"new")
    again = replay()
    assert (again.before, again.counts.total) == (len(ready), 0)
    assert replay(name="two").counts.queued == len(ready)
    with pytest.raises(ConfigError, match="is no condition on the table jobs"):
        history.app.sync(LakeReplay(lake, history.app).run("no_such_column = 1"))
