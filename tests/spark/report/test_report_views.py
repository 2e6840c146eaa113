"""The SQL views say by the hour what the events say, in DuckDB."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from plain_figures import WRONG, figures, within
from truth import FINISHED, jain

from holdfast import Event
from holdfast.spark.lake.delta_table import query
from holdfast.spark.lake.opening import open_tables
from holdfast.spark.lake.report.views import VIEWED, VIEWS, view_statements

HOUR = timedelta(hours=1)
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def views(drawn: tuple[Path, list[Event]]) -> dict[str, Rows]:
    """The rows of every view."""
    tables = open_tables(drawn[0])
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        for name in VIEWED:
            database.register(name, query({name: tables[name]}, f"SELECT * FROM {name}"))
        for statement in view_statements():
            database.execute(statement)
        return {name: database.sql(f"SELECT * FROM {name}").to_arrow_table().to_pylist() for name in VIEWS}


def by_hour(events: list[Event]) -> dict[tuple[datetime, str], list[Event]]:
    found: dict[tuple[datetime, str], list[Event]] = defaultdict(list)
    for event in events:
        found[hour(event), event.queue].append(event)
    return found


def hour(event: Event) -> datetime:
    return datetime.fromtimestamp(event.at_ms // 3_600_000 * 3600, UTC)


def same(row: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert {name: row[name] for name in wanted} == pytest.approx(wanted)


def test_queues_and_what_went_wrong(views: dict[str, Rows], drawn: tuple[Path, list[Event]]) -> None:
    hours = by_hour(drawn[1])
    assert {(row["hour"], row["queue"]) for row in views["report_queues"]} == hours.keys()
    for row in views["report_queues"]:
        wanted = figures(hours[row["hour"], row["queue"]])
        same(row, {name: wanted[name] for name in wanted.keys() & row.keys()})
    for row in views["report_retries"]:
        ended = [e for e in hours[row["hour"], row["queue"]] if e.run_ms is not None and e.task == row["task"]]
        wrong = [event for event in ended if event.transition in WRONG]
        lost = sum(event.run_ms or 0 for event in wrong)
        same(row, {"ended": len(ended), "wrong": len(wrong), "wrong_ms": lost})


def test_open_jobs(views: dict[str, Rows], drawn: tuple[Path, list[Event]]) -> None:
    for row in views["report_backlog"]:
        before = within(drawn[1], datetime.min.replace(tzinfo=UTC), row["hour"] + HOUR)
        mine = [event for event in before if event.queue == row["queue"]]
        came = sum(event.transition == "enqueue" for event in mine)
        assert row["open_jobs"] == came - sum(event.state in FINISHED for event in mine)


def test_errors_tenants_and_fairness(views: dict[str, Rows], drawn: tuple[Path, list[Event]]) -> None:
    errors = Counter((hour(e), e.queue, e.error_signature) for e in drawn[1] if e.error_signature)
    assert {(r["hour"], r["queue"], r["error_signature"]): r["count"] for r in views["report_errors"]} == errors
    waits: dict[tuple[datetime, str, str], list[int]] = defaultdict(list)
    for event in drawn[1]:
        if event.transition == "claim" and event.key is not None:
            waits[hour(event), event.queue, event.key].append(event.wait_ms or 0)
    for row in views["report_tenants"]:
        mine = waits[row["hour"], row["queue"], row["key"]]
        all_of_it = sum(len(w) for (at, queue, _), w in waits.items() if (at, queue) == (row["hour"], row["queue"]))
        same(row, {"started": len(mine), "wait_mean_ms": sum(mine) / len(mine), "share": len(mine) / all_of_it})
    for row in views["report_fairness"]:
        each = [w for (at, queue, _), w in waits.items() if (at, queue) == (row["hour"], row["queue"]) and w]
        assert row["fairness"] == pytest.approx(jain([len(w) for w in each]))
        assert row["wait_fairness"] == pytest.approx(jain([sum(w) / len(w) for w in each]))


def test_workers(views: dict[str, Rows], drawn: tuple[Path, list[Event]]) -> None:
    busy = Counter({e.worker: 0 for e in drawn[1] if e.worker})
    busy.update({w: sum(e.run_ms or 0 for e in drawn[1] if e.worker == w) for w in busy})
    found: Counter[str] = Counter()
    for row in views["report_workers"]:
        found[row["worker"]] += int(row["busy_ms"])
        assert row["slots"] == 1
        assert row["utilisation"] == pytest.approx(float(row["busy_ms"]) / 3_600_000)
    assert found == busy
