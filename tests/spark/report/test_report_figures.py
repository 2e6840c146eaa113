"""Every figure of a report is worked out again in plain Python, from the events."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from drawn_history import SHOP
from plain_figures import WRONG, figures, within
from truth import FINISHED, jain

from holdfast import ConfigError, Event
from holdfast.spark.lake.report import LakeReport, make_report

BEGIN = datetime(2026, 11, 10, 7, 0, tzinfo=UTC)
HOURS = 8
READ_AT = BEGIN + timedelta(hours=HOURS)
MINUTE = timedelta(minutes=1)
QUEUES = [queue.name for queue in SHOP]


PERIODS = {
    "all of it": (None, None, ()),
    "three hours": (BEGIN + timedelta(hours=4), BEGIN + timedelta(hours=7), ()),
    "up to now, one queue": (BEGIN + timedelta(hours=5, minutes=13), READ_AT, ("payments",)),
    "some minutes, two queues": (BEGIN + timedelta(hours=5), BEGIN + timedelta(hours=5, minutes=6), ("mail", "photos")),
}


@pytest.fixture(scope="module", params=PERIODS)
def told(drawn: tuple[Path, list[Event]], request: pytest.FixtureRequest) -> tuple[LakeReport, list[Event]]:
    """A report, and the events of its queues."""
    since, until, queues = PERIODS[request.param]
    report = make_report(drawn[0], since, until, queues)
    return report, [event for event in drawn[1] if not queues or event.queue in queues]


def check(row: dict[str, Any], wanted: dict[str, Any]) -> None:
    """The figures are the same. Between two values, the engine finds a percentile to a millionth of their distance."""
    known = {name: value for name, value in wanted.items() if value is not None}
    assert {name: row[name] for name in known} == pytest.approx(known, rel=1e-5)
    assert {row[name] for name in wanted.keys() - known.keys()} <= {None}


def test_totals_queues_and_the_period_before(told: tuple[LakeReport, list[Event]]) -> None:
    report, events = told
    assert report.period is not None
    mine = within(events, report.period.since, report.period.until)
    check(report.total, figures(mine))
    assert {row["queue"] for row in report.queues} == {event.queue for event in mine}
    for row in report.queues:
        check(row, figures([event for event in mine if event.queue == row["queue"]]))
    before = report.period.before
    if report.since is None:
        assert report.before is None
        return
    then = within(events, before.since, before.until)
    assert report.before is not None
    check(report.before, figures(then))
    for row in report.queues:
        check(row["before"], figures([event for event in then if event.queue == row["queue"]]))


def test_each_step_of_the_charts(told: tuple[LakeReport, list[Event]]) -> None:
    report, events = told
    assert report.period is not None
    assert report.period.steps <= 121
    length = report.step.total_seconds()
    assert report.step < MINUTE if report.period.length < timedelta(minutes=10) else report.step >= MINUTE
    by_queue = {queue: [event for event in events if queue in (None, event.queue)] for queue in (None, *QUEUES)}
    seen: set[str | None] = set()
    for row in report.series:
        begin = row["at"]
        assert begin.timestamp() % length == 0, "a step begins at a round time"
        since, until = max(begin, report.period.since), min(begin + report.step, report.period.until)
        of_queue = by_queue[row["queue"]]
        wanted = figures(within(of_queue, since, until))
        names = ("enqueued", "completed", "failed", "retried", "stalled", "wait_p50_ms", "run_p99_ms", "wrong", "ended")
        check({**dict.fromkeys(names), "wrong": 0, "ended": 0, **row}, {name: wanted[name] for name in names})
        if row.get("open") is not None:
            over = within(of_queue, BEGIN, until)
            changes = Counter(event.state if _ends(event) else event.transition for event in over)
            assert row["open"] == changes["enqueue"] - changes["completed"] - changes["failed"]
            seen.add(row["queue"])
    assert seen == {None, *(row["queue"] for row in report.queues)}


def _ends(event: Event) -> bool:
    return event.state in FINISHED


def test_errors_tenants_and_fairness(told: tuple[LakeReport, list[Event]]) -> None:
    report, events = told
    assert report.period is not None
    mine = within(events, report.period.since, report.period.until)
    then = within(events, report.period.before.since, report.period.before.until)
    now, before = (Counter((e.queue, e.error_signature) for e in some if e.error_signature) for some in (mine, then))
    assert {(row["queue"], row["error_signature"]): row["count"] for row in report.errors} == now
    for row in report.errors:
        assert row["before"] == (None if report.since is None else before[row["queue"], row["error_signature"]])
        assert (row["message"], row["all_errors"]) == (None, now.total())
    waits: dict[tuple[str, str], list[int]] = defaultdict(list)
    for event in mine:
        if event.transition == "claim" and event.key is not None:
            waits[event.queue, event.key].append(event.wait_ms or 0)
    tenants = {(row["queue"], row["key"]): row for row in report.tenants if row["started"]}
    assert tenants.keys() == waits.keys()
    for (queue, key), found in waits.items():
        started = sum(len(each) for (of, _), each in waits.items() if of == queue)
        wanted = {"started": len(found), "wait_mean_ms": sum(found) / len(found), "wait_max_ms": max(found)}
        check(tenants[queue, key], wanted | {"share": len(found) / started})
    for row in report.fairness:
        own = {key: found for (queue, key), found in waits.items() if queue == row["queue"]}
        assert row["fairness"] == pytest.approx(jain([len(each) for each in own.values()]))
        assert row["wait_fairness"] == pytest.approx(jain([sum(each) / len(each) for each in own.values()]))
        assert len(own[row["largest"]]) == max(map(len, own.values()))
        assert row["slowest_ms"] == pytest.approx(max(sum(each) / len(each) for each in own.values()))


def test_what_went_wrong_has_cost(told: tuple[LakeReport, list[Event]]) -> None:
    report, events = told
    assert report.period is not None
    ended = [e for e in within(events, report.period.since, report.period.until) if e.run_ms is not None]
    for row in report.retries:
        mine = [event for event in ended if (event.queue, event.task) == (row["queue"], row["task"])]
        wrong = [event for event in mine if event.transition in WRONG]
        counts = Counter(event.transition for event in wrong)
        assert (row["ended"], row["wrong"]) == (len(mine), len(wrong))
        assert (row["retried"], row["failed"], row["stalled"]) == (counts["retry"], counts["fail"], counts["reap"])
        assert (row["ran_ms"], row["wrong_ms"]) == (
            sum(e.run_ms or 0 for e in mine),
            sum(e.run_ms or 0 for e in wrong),
        )
    assert sum(row["wrong"] for row in report.retries) == report.total["wrong"]


def _attempts(report: LakeReport, events: Sequence[Event]) -> dict[str, list[tuple[float, float]]]:
    """Each worker's attempts as milliseconds, cut to the period; what runs is counted up to the last batch."""
    assert report.period is not None
    since, until = report.period.since.timestamp() * 1000, min(report.period.until, READ_AT).timestamp() * 1000
    open_ones: dict[tuple[str, int], Event] = {}
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)

    def add(worker: str | None, began: float, ended: float) -> None:
        if worker is not None and began < until and ended >= since:
            found[worker].append((max(began, since), min(ended, until)))

    for event in events:
        if event.transition == "claim":
            open_ones[event.id, event.attempt] = event
        elif event.run_ms is not None:
            open_ones.pop((event.id, event.attempt))
            add(event.worker, event.at_ms - event.run_ms, event.at_ms)
    for event in open_ones.values():
        add(event.worker, event.at_ms, until)
    return found


def test_workers_and_how_busy_they_were(told: tuple[LakeReport, list[Event]]) -> None:
    report, events = told
    attempts = _attempts(report, events)
    assert {row["worker"] for row in report.workers} == attempts.keys()
    for row in report.workers:
        mine = attempts[row["worker"]]
        busy, span = sum(end - begin for begin, end in mine), max(e for _, e in mine) - min(b for b, _ in mine)
        slots = max(1, *(sum(begin <= moment < end for begin, end in mine) for moment, _ in mine))
        check(row, {"busy_ms": busy, "slots": slots, "span_ms": span, "utilisation": busy / (slots * span)})
    step = report.step.total_seconds() * 1000
    busy_in: dict[int, float] = defaultdict(float)
    for begin, end in (each for mine in attempts.values() for each in mine):
        for number in range(int(begin // step), math.ceil(end / step)):
            busy_in[number] += (min(end, (number + 1) * step) - max(begin, number * step)) / step
    assert {int(row["at"].timestamp() * 1000 // step): row["busy"] for row in report.busy} == pytest.approx(busy_in)


def test_open_jobs_as_of_the_last_batch(told: tuple[LakeReport, list[Event]]) -> None:
    report, events = told
    last = {(event.queue, event.id): event.state for event in events}
    still = Counter((queue, str(state)) for (queue, _), state in last.items() if state not in FINISHED)
    assert {(row["queue"], row["state"]): row["jobs"] for row in report.backlog} == still


def test_a_lake_that_does_not_reach_back_is_not_compared(drawn: tuple[Path, list[Event]]) -> None:
    since = BEGIN + timedelta(hours=3)
    assert make_report(drawn[0], since, READ_AT).before is None
    assert make_report(drawn[0], since, since + timedelta(hours=2)).before is not None


def test_a_period_ends_after_it_begins(drawn: tuple[Path, list[Event]]) -> None:
    with pytest.raises(
        ConfigError, match=r"the report would end at 2026-11-10 07:00, before it begins: give a later --until"
    ):
        make_report(drawn[0], READ_AT, BEGIN)


def test_nothing_has_happened_in_another_year_or_queue(drawn: tuple[Path, list[Event]]) -> None:
    for report in (make_report(drawn[0], READ_AT + timedelta(days=365)), make_report(drawn[0], queues=["it's"])):
        assert (report.period, report.first, report.queues, report.series) == (None, None, [], [])
