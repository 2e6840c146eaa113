"""The lake tells what happened: every row and figure is worked out again in plain Python, from the events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import truth
from history import History
from pyspark.sql import SparkSession

from holdfast import Event
from holdfast.spark.lake import Lake
from holdfast.spark.lake.probe import POINTS
from holdfast.spark.lake.query import query
from holdfast.spark.lake.report import open_tables

TOLD = {
    "attempts": ("queue", "id", "run", "attempt"),
    "jobs": ("queue", "id", "run"),
    "minutes": ("queue", "minute"),
    "tenants": ("queue", "minute", "key"),
    "errors": ("queue", "minute", "error_signature"),
    "workers": ("worker", "minute"),
}


def rows(lake: Path, name: str) -> list[dict[str, Any]]:
    return query(open_tables(lake), f"SELECT * FROM {name}").to_pylist()


def check(lake: Path, events: list[Event]) -> None:
    """Every table says what the events say: no row lost, none doubled, no figure off."""
    bronze = rows(lake, "events")
    assert len(bronze) == len(events)
    assert {(row["queue"], row["sequence"]) for row in bronze} == {(e.queue, sequence(e)) for e in events}
    for name, key in TOLD.items():
        found = rows(lake, name)
        wanted = getattr(truth, name)(events)
        assert len(found) == len(wanted), name
        for row in found:
            for column, value in wanted[tuple(row[part] for part in key)].items():
                assert same(row[column], value), (name, row, column, value)


def sequence(event: Event) -> int:
    if event.position.startswith("{"):
        import json

        return int(json.loads(event.position)[event.queue].partition("-")[2])
    return int(event.position.split(":")[1 if event.position.count(":") == 1 else 2])


def same(found: Any, wanted: Any) -> bool:
    return found == wanted if not isinstance(wanted, float) else found == pytest.approx(wanted)


def check_store(lake: Path, history: History) -> None:
    """Silver `jobs` says of each run what the store says of it."""
    silver = {(row["queue"], row["id"], row["run"]): row for row in rows(lake, "jobs")}
    stored = history.jobs()
    for job in stored:
        row = silver.pop((job.queue, job.id, job.run))
        assert row["state"] == job.state
        assert (row["task"], row["key"], row["priority"]) == (job.task, job.key, job.priority)
        counters = {name: row[name] for name in ("attempts", "failures", "stalls", "timeouts", "releases")}
        assert counters == {name: getattr(job.counters, name) for name in counters}, (row, job)
        assert row["run_at"] == job.run_at
        assert row["finished_at"] == job.finished_at
        if job.state == "active":
            assert (row["started_at"], row["worker"]) == (job.started_at, job.worker)
    # What the store no longer has is over.
    assert {row["state"] for row in silver.values()} <= {"completed", "failed", "cancelled", "deleted"}
    assert {row["day"] is None for row in silver.values()} <= {False}


@pytest.mark.parametrize("kind", ["sqlite", "redis", "postgresql"])
def test_every_figure_is_that_of_the_events(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    with History(kind, tmp_path) as history:
        lake = Lake(tmp_path / "lake", history.app, spark)
        for _ in range(2):
            history.go_on()
            done = lake.update()
            assert done is not None
            assert done.missing == 0
            history.rest(3700)
            history.go_on(5)
        assert lake.update() is not None
        assert lake.update() is None, "nothing has happened since"
        check(lake.path, history.events())
        check_store(lake.path, history)


class Killed(BaseException):
    """The run ends here, as if by kill -9: all that is left is on the disk."""


def test_killed_at_any_point_nothing_is_lost_and_nothing_doubled(spark: SparkSession, tmp_path: Path) -> None:
    with History("sqlite", tmp_path) as history:
        history.go_on(60)
        Lake(tmp_path / "lake", history.app, spark).update()
        history.go_on(60)
        for point in POINTS:

            def kill(reached: str, point: str = point) -> None:
                if reached == point:
                    raise Killed

            with pytest.raises(Killed):
                Lake(tmp_path / "lake", history.app, spark, kill).update()
            if point == "planned":
                history.go_on(20)  # what comes later is not for this batch
        lake = Lake(tmp_path / "lake", history.app, spark)
        lake.update()
        check(lake.path, history.events())
        assert sorted(row["batch"] for row in rows(lake.path, "batches")) == [1, 2, 3]
