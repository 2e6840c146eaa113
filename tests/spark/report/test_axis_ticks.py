"""Axes have round numbers and round times, whatever they span."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.spark.lake.report.change import absolute, relative
from holdfast.spark.lake.report.form import duration, percent
from holdfast.spark.lake.report.panels import Unit
from holdfast.spark.lake.report.period import POINTS, Period
from holdfast.spark.lake.report.ticks import MOST_LINES, tick_label, time_ticks, value_ticks

AT = datetime(2026, 11, 10, 7, 13, tzinfo=UTC)


@pytest.mark.parametrize(
    ("highest", "unit", "labels"),
    [
        (0, "count", ["0", "1"]),
        (3, "count", ["0", "1", "2", "3"]),
        (7.0, "count", ["0", "2", "4", "6", "8"]),
        (4_100, "count", ["0", "1 k", "2 k", "3 k", "4 k", "5 k"]),
        (1_500_000, "count", ["0", "0.5 M", "1 M", "1.5 M"]),
        (0, "duration", ["0", "1 ms"]),
        (2_100, "duration", ["0", "0.5 s", "1 s", "1.5 s", "2 s", "2.5 s"]),
        (70_000, "duration", ["0", "15 s", "30 s", "45 s", "60 s", "75 s"]),
        (7_300_000, "duration", ["0", "0.5 h", "1 h", "1.5 h", "2 h", "2.5 h"]),
        (1e9, "duration", ["0", "5 d", "10 d", "15 d"]),
        (0.034, "share", ["0", "1 %", "2 %", "3 %", "4 %"]),
        (1.0, "share", ["0", "20 %", "40 %", "60 %", "80 %", "100 %"]),
        (0.3, "number", ["0", "0.1", "0.2", "0.3"]),
    ],
)
def test_values(highest: float, unit: Unit, labels: list[str]) -> None:
    ticks = value_ticks(highest, unit)
    assert [tick_label(value, ticks, unit) for value in ticks] == labels


@given(st.floats(0, 1e12), st.sampled_from(("count", "duration", "share", "number")))
def test_every_value_has_its_place_and_every_line_a_label_of_its_own(highest: float, unit: Unit) -> None:
    ticks = value_ticks(highest, unit)
    assert ticks[0] == 0
    assert ticks[-1] >= highest * (1 - 1e-9)
    assert 2 <= len(ticks) <= MOST_LINES + 1
    assert len({tick_label(value, ticks, unit) for value in ticks}) == len(ticks)


@pytest.mark.parametrize(
    ("length", "labels"),
    [
        (timedelta(minutes=2), ["07:13:00", "07:13:30", "07:14:00", "07:14:30"]),
        (timedelta(hours=1), ["07:20", "07:30", "07:40", "07:50", "08:00", "08:10"]),
        (timedelta(days=1), ["08:00", "12:00", "16:00", "20:00", "11 Nov", "04:00"]),
        (timedelta(days=7), [f"{day} Nov" for day in range(11, 18)]),
        (timedelta(days=30), ["16 Nov", "23 Nov", "30 Nov", "7 Dec"]),
        (timedelta(days=400), ["Jan 2027", "Mar 2027", "May 2027", "Jul 2027", "Sep 2027", "Nov 2027"]),
    ],
)
def test_times(length: timedelta, labels: list[str]) -> None:
    assert [label for _, label in time_ticks(AT, AT + length)] == labels


@given(st.integers(1, 4_000_000))
def test_times_are_few_and_within(minutes: int) -> None:
    until = AT + timedelta(minutes=minutes)
    found = time_ticks(AT, until)
    assert len(found) <= 8
    assert all(AT <= at < until for at, _ in found)
    period = Period(AT, until)
    assert 1 <= period.steps <= POINTS + 1


def test_changes_are_told_in_words() -> None:
    def words(now: float | None, before: float | None) -> str | None:
        change = relative(now, before, "less")
        return change and change.sentence

    assert words(112, 100) == "12 % more, worse"
    assert words(50, 100) == "50 % less, better"
    assert words(1_200, 100) == "12 times, worse"
    assert words(350, 100) == "3.5 times, worse"
    assert words(100, 100) == words(0, 0) == words(1001, 1000) == "as before"
    assert words(3, 0) == "none before, worse"
    assert words(0, 3) == "none any more, better"
    assert words(None, 3) is None
    shares = absolute(0.034, 0.021, "less")
    assert shares is not None
    assert (shares.words, shares.tone) == ("1.3 points more", "worse")
    neither = relative(2, 1, "neither")
    assert neither is not None
    assert neither.sentence == "100 % more"


def test_values_are_short() -> None:
    assert [duration(ms) for ms in (None, 0, 0.4, 12, 950, 1500, 90_000, 7_200_000, 90_000_000)] == [
        "", "0 ms", "0.4 ms", "12 ms", "950 ms", "1.5 s", "1.5 min", "2 h", "1 d",
    ]  # fmt: skip
    assert [percent(share) for share in (None, 0, 0.0001, 0.25, 1)] == ["", "0.0 %", "< 0.1 %", "25.0 %", "100.0 %"]
