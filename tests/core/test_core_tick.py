"""Ticks: cron in every zone, intervals that never drift, and what is wrong with a text that is no cron."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import At, ConfigError, Cron, Every
from holdfast.core.tick import Spec, tick_name

ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "America/St_Johns",
    "America/Santiago",  # goes forward at midnight
    "Africa/Cairo",  # so does this one
    "Africa/Casablanca",  # goes back for a month
    "Australia/Lord_Howe",  # by half an hour
    "Asia/Kathmandu",  # never, and stands at a quarter to
    "UTC",
)


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def ticks(spec: Spec, after: str, count: int, tz: str = "UTC") -> list[str]:
    found, at = [], ms(after)
    for _ in range(count):
        at = spec.next_ms(at)  # type: ignore[assignment]
        assert at is not None
        found.append(datetime.fromtimestamp(at / 1000, ZoneInfo(tz)).isoformat())
    return found


def between(spec: Spec, first: int, last: int) -> list[int]:
    found, at = [], spec.next_ms(first - 1)
    while at is not None and at <= last:
        found.append(at)
        at = spec.next_ms(at)
    return found


# --- daylight saving


def test_a_time_that_does_not_exist_comes_at_the_end_of_the_gap() -> None:
    found = ticks(Cron("30 2 * * *", tz="Europe/Berlin"), "2026-03-28T00:00Z", 3, "Europe/Berlin")
    assert found == ["2026-03-28T02:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]


def test_several_times_in_the_gap_are_one_tick() -> None:
    found = ticks(Cron("0,20,40 2 * * *", tz="Europe/Berlin"), "2026-03-29T00:00Z", 2, "Europe/Berlin")
    assert found == ["2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"]


def test_a_time_that_occurs_twice_comes_the_first_time_only() -> None:
    found = ticks(Cron("30 2 * * *", tz="Europe/Berlin"), "2026-10-24T12:00Z", 2, "Europe/Berlin")
    assert found == ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]


def test_whoever_looks_in_the_second_of_two_equal_hours_gets_a_later_tick() -> None:
    cron = Cron("30 2 * * *", tz="Europe/Berlin")
    in_the_second = ms("2026-10-25T02:10:00+01:00")
    assert cron.next_ms(in_the_second) == ms("2026-10-26T02:30:00+01:00")


def test_what_counts_real_time_goes_on_through_both() -> None:
    spring = ticks(Cron("*/30 * * * *", tz="Europe/Berlin"), "2026-03-29T00:15Z", 3, "Europe/Berlin")
    assert spring == ["2026-03-29T01:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-29T03:30:00+02:00"]
    autumn = ticks(Cron("*/30 * * * *", tz="Europe/Berlin"), "2026-10-25T00:15Z", 4, "Europe/Berlin")
    assert autumn == [
        "2026-10-25T02:30:00+02:00",
        "2026-10-25T02:00:00+01:00",
        "2026-10-25T02:30:00+01:00",
        "2026-10-25T03:00:00+01:00",
    ]


@pytest.mark.parametrize("tz", ZONES)
@pytest.mark.parametrize("time", ["0 0", "30 0", "59 1", "0 2", "30 2", "0 3", "30 23"])
def test_a_time_of_day_comes_once_on_every_day_of_the_year(tz: str, time: str) -> None:
    found = between(Cron(f"{time} * * *", tz=tz), ms("2026-01-01T00:00Z"), ms("2027-01-01T00:00Z"))
    days = [datetime.fromtimestamp(tick / 1000, ZoneInfo(tz)).date() for tick in found]
    assert days == [days[0] + timedelta(days=number) for number in range(len(days))]
    assert len(days) >= 364
    assert days[0] <= date(2026, 1, 2)


def changes(tz: str) -> list[int]:
    """Return the days of a year, in ms, on which a zone's clocks are changed; its first day, when there is none."""
    days = [datetime(2026, 1, 1, 12, tzinfo=UTC) + timedelta(days=number) for number in range(365)]
    offsets = [day.astimezone(ZoneInfo(tz)).utcoffset() for day in days]
    changed = [day for day, (before, after) in zip(days, itertools.pairwise(offsets), strict=False) if before != after]
    return [round(day.timestamp() * 1000) for day in changed or days[:1]]


@pytest.mark.parametrize("tz", ZONES)
@pytest.mark.parametrize("time", ["30 0", "30 2", "0,20,40 1-3"])
def test_seconds_in_front_change_nothing_when_the_clocks_change(tz: str, time: str) -> None:
    for day in changes(tz):
        first, last = day - 86_400_000, day + 2 * 86_400_000
        assert between(Cron(f"0 {time} * * *", tz=tz), first, last) == between(
            Cron(f"{time} * * *", tz=tz), first, last
        )


def test_seconds_in_the_gap_come_at_its_end() -> None:
    found = ticks(Cron("15,45 30 2 * * *", tz="Europe/Berlin"), "2026-03-28T12:00Z", 2, "Europe/Berlin")
    assert found == ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:15+02:00"]


@pytest.mark.parametrize("tz", ZONES)
def test_every_quarter_of_an_hour_is_fifteen_minutes_after_the_last(tz: str) -> None:
    for day in changes(tz):
        found = between(Cron("*/15 * * * *", tz=tz), day, day + 86_400_000)
        assert {later - tick for tick, later in itertools.pairwise(found)} == {15 * 60_000}
        assert len(found) == 97


# --- the same ticks, however one looks

CRONS = st.sampled_from(
    ["* * * * *", "30 2 * * *", "0 */3 * * *", "15,45 1-3 * * SUN", "0 0 1 * *", "*/20 8 * * MON-FRI"]
)
INSTANTS = st.integers(ms("2026-03-01T00:00Z"), ms("2026-12-01T00:00Z"))
SPECS = st.one_of(
    st.builds(Cron, CRONS, st.sampled_from(ZONES)),
    st.builds(Every, st.sampled_from([0.1, 0.25, 7, 60, 3600, 86_400]), st.sampled_from([0.0, 0.05, 1e9])),
    st.builds(At, st.just(datetime(2026, 6, 1, tzinfo=UTC))),
)


@settings(max_examples=150, deadline=None)
@given(SPECS, INSTANTS, st.integers(0, 3 * 86_400_000))
def test_the_next_tick_is_the_same_from_everywhere_before_it(spec: Spec, at: int, back: int) -> None:
    tick = spec.next_ms(at)
    if tick is not None:
        assert tick > at
        assert spec.next_ms(tick - 1) == tick
        later = spec.next_ms(tick)
        assert later is None or later > tick
        if spec.next_ms(max(at - back, 0)) == tick:
            assert spec.latest_ms(at - back, tick, 5)[-1] == tick


@settings(max_examples=100, deadline=None)
@given(SPECS, INSTANTS, st.integers(0, 5_000_000), st.integers(1, 50))
def test_the_latest_ticks_are_the_last_of_all(spec: Spec, first: int, span: int, most: int) -> None:
    assert spec.latest_ms(first, first + span, most) == between(spec, first, first + span)[-most:]


def test_a_year_of_missed_minutes_costs_no_more_than_those_wanted() -> None:
    first, last = ms("2025-06-01T00:00Z"), ms("2026-06-01T00:00Z")
    assert Cron("* * * * *").latest_ms(first, last, 2) == [last - 60_000, last]


# --- intervals and instants


def test_an_interval_is_counted_from_its_anchor_and_never_drifts() -> None:
    assert ticks(Every(3600), "2026-01-01T00:30Z", 2) == ["2026-01-01T01:00:00+00:00", "2026-01-01T02:00:00+00:00"]
    anchored = Every(timedelta(hours=1), anchor=datetime(2026, 1, 1, 0, 5, tzinfo=UTC))
    assert ticks(anchored, "2026-01-01T00:05Z", 1) == ["2026-01-01T01:05:00+00:00"]
    assert ticks(anchored, "2025-12-31T20:00Z", 1) == ["2025-12-31T20:05:00+00:00"]


def test_an_instant_comes_once() -> None:
    spec = At(datetime(2026, 1, 1, tzinfo=UTC))
    assert spec.next_ms(ms("2025-12-31T23:59Z")) == ms("2026-01-01T00:00Z")
    assert spec.next_ms(ms("2026-01-01T00:00Z")) is None


@pytest.mark.parametrize("spec", [Cron("0 3 * * *", tz="Asia/Tokyo"), Every(90.5, anchor=3.0), At(1.8e9)], ids=str)
def test_a_spec_comes_back_as_it_was_stored(spec: Spec) -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(spec), type=Spec) == spec
    assert msgspec.json.decode(msgspec.json.encode(spec), type=Spec) == spec


def test_specs_read_like_what_they_are() -> None:
    assert [str(spec) for spec in (Cron("0 3 * * *"), Every(90), At(0))] == [
        "0 3 * * * UTC",
        "every 90 s",
        "at 1970-01-01T00:00:00Z",
    ]


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("@hourly", "2026-01-01T01:00", "2026-01-01T02:00"),
        ("@daily", "2026-01-02T00:00", "2026-01-03T00:00"),
        ("@midnight", "2026-01-02T00:00", "2026-01-03T00:00"),
        ("@weekly", "2026-01-04T00:00", "2026-01-11T00:00"),
        ("@monthly", "2026-02-01T00:00", "2026-03-01T00:00"),
        ("@yearly", "2027-01-01T00:00", "2028-01-01T00:00"),
        ("@annually", "2027-01-01T00:00", "2028-01-01T00:00"),
        ("@every 5m", "2026-01-01T00:05", "2026-01-01T00:10"),
        ("@every 1h30m", "2026-01-01T01:30", "2026-01-01T03:00"),
        ("@every 90", "2026-01-01T00:01:30", "2026-01-01T00:03"),
    ],
)
def test_cron_s_own_names_are_times_and_are_shown_as_written(name: str, first: str, second: str) -> None:
    spec = Cron(name)
    start = ms("2026-01-01T00:00Z")
    assert spec.next_ms(start) == ms(f"{first}Z")
    assert spec.next_ms(ms(f"{first}Z")) == ms(f"{second}Z")
    assert spec.latest_ms(start + 1, ms(f"{second}Z"), 5) == [ms(f"{first}Z"), ms(f"{second}Z")]
    assert str(spec) == (name if "every" in name else f"{name} UTC")
    assert msgspec.json.decode(msgspec.json.encode(spec), type=Spec) == spec


def test_a_named_time_is_one_of_its_zone() -> None:
    assert ticks(Cron("@daily", tz="Europe/Berlin"), "2026-01-01T00:00:00Z", 1) == ["2026-01-01T23:00:00+00:00"]


def test_a_long_interval_is_told_in_full() -> None:
    assert (str(Every(1234567)), str(Every(0.25))) == ("every 1234567 s", "every 0.25 s")


def test_sunday_may_end_a_range_of_days() -> None:
    assert ticks(Cron("0 3 * * sat-SUN "), "2026-01-01T00:00:00Z", 3) == [
        "2026-01-03T03:00:00+00:00", "2026-01-04T03:00:00+00:00", "2026-01-10T03:00:00+00:00",
    ]  # fmt: skip


def test_a_tick_is_named_by_its_instant() -> None:
    assert tick_name(ms("2026-11-16T03:00Z")) == "2026-11-16T03:00:00Z"
    assert tick_name(ms("2026-11-16T03:00Z") + 250) == "2026-11-16T03:00:00.250Z"


# --- what is refused


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("61 * * * *", r"its minute is wrong: '61'"),
        ("* 24 * * *", r"its hour is wrong: '24'"),
        ("* * 0 * *", r"its day-of-month is wrong: '0'"),
        ("* * * FOO *", r"its month is wrong: 'FOO'"),
        ("* * * * 5-2", r"its day-of-week is wrong: '5-2'"),
        ("99 * * * * *", r"its second is wrong: '99'"),
        ("*/0 * * * *", r"its minute is wrong: '\*/0'"),
        ("0 0 31 2 *", r"its day-of-month is wrong: '31'"),
        ("* * * *", r"has 4 fields, and not 5 \(minute, hour"),
        ("", r"has 0 fields"),
        ("0 0 */31 * MON#5", r"never comes: there is no such day"),
        (None, r"Cron\(None\): a text of five fields"),
        ("@reboot", r"Cron\('@reboot'\) is no name of a time; known are @yearly, .*@hourly and '@every 5m'"),
        ("@every", r"Cron\('@every'\): write how often, such as '@every 90s', '@every 5m' or '@every 1h30m'"),
        ("@every day", r"Cron\('@every day'\): write how often"),
        ("@every 10ms", r"Cron\('@every 10ms'\): Every\(0.01\): at least 0.1 s"),
    ],
)
def test_a_text_that_is_no_cron_is_refused_with_the_field_that_is_wrong(text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Cron(text)


def test_an_interval_has_no_zone() -> None:
    with pytest.raises(ConfigError, match=r"Cron\('@every 5m', tz='Asia/Tokyo'\): an interval has no time zone"):
        Cron("@every 5m", tz="Asia/Tokyo")


@pytest.mark.parametrize("tz", ["Mars/Olympus", "", "../etc/passwd", 5])
def test_a_zone_that_is_none_is_refused(tz: str) -> None:
    with pytest.raises(ConfigError, match="there is no such time zone here; write an IANA name"):
        Cron("* * * * *", tz=tz)


def test_intervals_and_instants_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"Every\(0.05\): at least 0.1 s"):
        Every(0.05)
    with pytest.raises(ConfigError, match="Every: seconds=-1: give seconds from 0 on"):
        Every(-1)
    with pytest.raises(ConfigError, match=r"Every: anchor=.* has no time zone"):
        Every(5, anchor=datetime(2026, 1, 1))
    with pytest.raises(ConfigError, match=r"At: when=.* has no time zone"):
        At(datetime(2026, 1, 1))
