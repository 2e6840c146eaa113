"""Numbers, durations and instants for people; what forms take; what charts draw."""

from __future__ import annotations

import pytest

from holdfast import ConfigError, Rate
from holdfast.core.job import JobRecord
from holdfast.core.state import State
from holdfast.web.dashboard import words
from holdfast.web.dashboard.actions import parse_rate
from holdfast.web.dashboard.draw.chart import Line, bar, curves, sparkline, stacked
from holdfast.web.dashboard.view.job import deeds
from holdfast.web.dashboard.view.jobs import JobQuery


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0 ms"), (0.4, "<1 ms"), (12, "12 ms"), (999, "999 ms"), (3400, "3.4 s"), (42_000, "42 s"), (60_000, "1 min"),
     (312_000, "5 min 12 s"), (7_500_000, "2 h 5 min"), (90_000_000, "1 d 1 h"), (None, "")],
)  # fmt: skip
def test_durations(ms: float | None, text: str) -> None:
    assert words.duration(ms) == text


@pytest.mark.parametrize(
    ("gap", "text"), [(0, "now"), (3400, "3 s ago"), (-90_000, "in 1 min 30 s"), (-500, "now"), (60_000, "1 min ago")]
)
def test_instants_are_told_from_now(gap: int, text: str) -> None:
    assert words.relative(1_000_000 - gap, 1_000_000) == text


def test_counts_rates_and_sizes() -> None:
    assert [words.short_count(n) for n in (0, 9999, 10_000, 1_234_567, 5e9)] == ["0", "9,999", "10.0k", "1.2M", "5.0G"]
    assert [words.rate(n) for n in (0, 0.05, 1.25, 1234.0)] == ["0/s", "3.0/min", "1.2/s", "1,234/s"]
    assert [words.percent(n) for n in (0, 0.034, 0.5, 0.998, 1)] == ["0 %", "3.4 %", "50 %", "99 %", "100 %"]
    assert [words.size(n) for n in (12, 1500, 10_000_000)] == ["12 bytes", "1.5 kB", "10.0 MB"]


@pytest.mark.parametrize(
    ("text", "rate"),
    [("10/s", Rate(10)), ("10/1s", Rate(10)), ("100 per min", Rate(100, per=60)), ("5/2h burst 7", Rate(5, 7200, 7)),
     ("0.5/s", Rate(0.5)), ("3/500ms", Rate(3, 0.5))],
)  # fmt: skip
def test_a_rate_as_people_write_it(text: str, rate: Rate) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize(
    ("rate", "text"),
    [(Rate(40), "40/s"), (Rate(100, per=60), "100/min"), (Rate(5, 7200, 7), "5/2h burst 7"), (Rate(3, 0.5), "3/0.5s"),
     (Rate(1_234_567), "1234567/s"), (Rate(0.00001), "0.00001/s"), (Rate(1, 86_400), "1/d")],
)  # fmt: skip
def test_a_rate_is_shown_as_the_form_takes_it(rate: Rate, text: str) -> None:
    assert words.per_time(rate) == text
    assert parse_rate(text) == rate


def test_an_instant_of_today_needs_no_date() -> None:
    noon = 1_794_744_000_000
    assert words.time_of_day(noon - 1, noon) == "11:59:59.999"
    assert words.time_of_day(noon - 86_400_000, noon) == "2026-11-14 12:00:00.000"


def test_what_went_wrong_is_a_line_of_its_own() -> None:
    assert "line-failed" not in sparkline([1, 2], "active", "done", [0, 0])
    both = sparkline([1, 2], "active", "done", [0, 4])
    assert 'class="line line-failed" d="M0.0 120.0L600.0 0.0"' in both
    assert 'class="line line-active" d="M0.0 90.0L600.0 60.0"' in both


@pytest.mark.parametrize("text", ["fast", "10", "1.2.3/s", "-1/s", "10/s burst x", "10/fortnight"])
def test_what_is_no_rate_is_told_of(text: str) -> None:
    with pytest.raises(ConfigError, match="rate="):
        parse_rate(text)


def test_a_query_is_its_address() -> None:
    query = JobQuery.of({"state": "failed", "queue": " mail ", "after": "2026-11-15", "cursor": "x", "odd": "y"})
    assert query.parameters() == {"state": "failed", "queue": "mail", "after": "2026-11-15T00:00"}
    assert query.filter().enqueued_after_ms == 1_794_700_800_000
    assert query.deeds() == ["requeue", "delete"]
    assert not JobQuery.of({"state": "failed", "queue": "mail"}).narrows
    with pytest.raises(ConfigError, match="known are"):
        JobQuery.of({"state": "odd"})


@pytest.mark.parametrize(
    ("state", "labels"),
    [(State.BLOCKED, ["Cancel", "Delete"]), (State.SCHEDULED, ["Run now", "Cancel", "Delete"]),
     (State.WAITING, ["Cancel", "Delete"]), (State.ACTIVE, ["Cancel", "Kill", "Delete"]),
     (State.COMPLETED, ["Requeue", "Delete"]), (State.FAILED, ["Requeue", "Delete"]),
     (State.CANCELLED, ["Requeue", "Delete"])],
)  # fmt: skip
def test_a_state_allows_its_actions_and_only_those(state: State, labels: list[str]) -> None:
    job = JobRecord(queue="q", id="i", run=1, task=None, state=state, payload=b"", run_at_ms=0, enqueued_at_ms=0)
    assert [each.label for each in deeds(job)] == labels


def test_charts_draw_what_there_is() -> None:
    plot = stacked("Done", [Line("a", "completed", [1, 2, 3]), Line("b", "failed", [0, 1, 0])], "now")
    assert plot.ticks == ("5", "2", "0")
    assert plot.latest == ("2", "1"), "the last bar is not over yet"
    assert "Done, now: a 2, b 1" in plot.svg
    gaps = curves("Waits", [Line("w", "active", [1.0, None, 2.0])], "now", words.duration)
    assert gaps.svg.count("M") >= 2
    empty = stacked("None", [Line("a", "completed", [])], "now")
    assert empty.latest == ("\u2013",)
    assert "NaN" not in sparkline([], "active", "x") + sparkline([0, 0], "active", "<x>")
    assert "<x>" not in sparkline([0, 0], "active", "<x>")
    assert 'width="25.00"' in bar([("completed", 1), ("none", 3)], "a quarter")
