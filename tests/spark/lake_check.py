"""Whether a lake says what happened: every row against the events, and against the store's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import truth

from holdfast import Event, JobRecord
from holdfast.spark.lake.delta_table import query
from holdfast.spark.lake.opening import open_tables
from holdfast.spark.lake.storage.location import LakeLocation

TOLD = {
    "attempts": ("queue", "id", "run", "attempt"),
    "jobs": ("queue", "id", "run"),
    "minutes": ("queue", "minute"),
    "tenants": ("queue", "minute", "key"),
    "errors": ("queue", "minute", "error_signature"),
    "workers": ("worker", "minute"),
}


def rows(lake: Path | str | LakeLocation, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = query(open_tables(lake), f"SELECT * FROM {name}").to_pylist()
    return found


def check(lake: Path | str | LakeLocation, events: list[Event]) -> None:
    """Every table says what the events say: no row lost, none doubled, no figure off."""
    bronze = rows(lake, "events")
    assert len(bronze) == len(events)
    assert {(row["queue"], row["sequence"]) for row in bronze} == {(each.queue, sequence(each)) for each in events}
    of_runs = [each for each in events if each.transition != "operate"]
    for name, key in TOLD.items():
        found = rows(lake, name)
        wanted = getattr(truth, name)(of_runs)
        assert len(found) == len(wanted), name
        for row in found:
            if "minute" in row:
                assert row["day"] == row["minute"].date(), (name, row)
            for column, value in wanted[tuple(row[part] for part in key)].items():
                assert same(row[column], value), (name, row, column, value)


def sequence(event: Event) -> int:
    if event.position.startswith("{"):
        return int(json.loads(event.position)[event.queue].split("-")[1])
    return int(event.position.split(":")[1])


def same(found: Any, wanted: Any) -> bool:
    return bool(found == (pytest.approx(wanted) if isinstance(wanted, float) else wanted))


def check_store(lake: Path | str | LakeLocation, jobs: list[JobRecord]) -> None:
    """Silver `jobs` says of each run what the store says of it, and the store lacks none that is open."""
    silver = {(row["queue"], row["id"], row["run"]): row for row in rows(lake, "jobs")}
    for job in jobs:
        row = silver.pop((job.queue, job.id, job.run))
        assert row["state"] == job.state
        assert (row["task"], row["key"], row["priority"]) == (job.task, job.key, job.priority)
        assert tuple(row["tags"] or ()) == job.tags, (row, job)
        counters = {name: row[name] for name in ("attempts", "failures", "stalls", "timeouts", "releases")}
        assert counters == {name: getattr(job.counters, name) for name in counters}, (row, job)
        assert (row["run_at"], row["finished_at"]) == (job.run_at, job.finished_at)
        if job.state == "active":
            assert (row["started_at"], row["worker"]) == (job.started_at, job.worker)
    assert {row["state"] for row in silver.values()} <= {"completed", "failed", "cancelled", "deleted"}
    assert all(row["day"] is not None for row in silver.values())
