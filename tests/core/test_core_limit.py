"""Token buckets, the settings of a queue, priorities, durations and instants."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.duration import instant_ms, to_datetime, to_ms
from holdfast.core.limit import Bucket, QueueSettings, Rate, check_priority, next_token_ms, refill
from holdfast.core.state import State
from holdfast.errors import ConfigError


def test_a_new_bucket_is_full() -> None:
    assert refill(Rate(5), None, 1000) == Bucket(5, 1000)
    assert refill(Rate(5, burst=2), None, 1000) == Bucket(2, 1000)
    assert Rate(0.5).capacity == 1, "a slow rate still holds one whole token"


def test_tokens_come_back_with_time_up_to_the_burst() -> None:
    rate = Rate(10, per=1)
    assert refill(rate, Bucket(0, 0), 100) == Bucket(1, 100)
    assert refill(rate, Bucket(0, 0), 10_000) == Bucket(10, 10_000)


def test_a_clock_that_went_back_takes_no_token_away() -> None:
    assert refill(Rate(10), Bucket(3, 1000), 500).tokens == 3


def test_the_next_token_is_known_exactly() -> None:
    rate = Rate(2, per=1)
    assert next_token_ms(rate, Bucket(1, 1000)) == 1000
    assert next_token_ms(rate, Bucket(0, 1000)) == 1500
    assert next_token_ms(rate, Bucket(0.5, 1000)) == 1250


@given(
    st.floats(0.001, 1e6), st.floats(0.001, 1e6), st.floats(0, 1, exclude_max=True), st.integers(0, 2**41)
)  # fmt: skip
def test_a_token_is_there_when_it_was_promised(count: float, per: float, tokens: float, now: int) -> None:
    rate, bucket = Rate(count, per=per), Bucket(tokens, now)
    at = next_token_ms(rate, bucket)
    assert at >= now
    assert refill(rate, bucket, at).tokens >= 1 - 1e-6


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"count": 0}, "Rate(0, per=1.0): both are numbers above 0"),
        ({"count": 1, "per": -1}, "Rate(1, per=-1): both are numbers above 0"),
        ({"count": float("nan")}, "both are numbers above 0"),
        ({"count": float("inf")}, "both are numbers above 0"),
        ({"count": 1, "burst": 0}, "Rate(burst=0): a burst is a whole number from 1"),
    ],
)
def test_a_bad_rate_gives_one_clear_line(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Rate(**values)
    assert message in str(caught.value)


def test_the_defaults_of_a_queue() -> None:
    settings = QueueSettings()
    assert (settings.result_ttl_ms, settings.retention.kept_ms(State.FAILED), settings.retention.failed_count) == (
        3_600_000, 90 * 24 * 3_600_000, None,
    )  # fmt: skip
    assert not settings.limited
    assert QueueSettings(concurrency=1).limited
    assert QueueSettings(rate=Rate(1)).limited


@pytest.mark.parametrize("priority", [-1000, 0, 1000])
def test_good_priorities(priority: int) -> None:
    assert check_priority(priority) == priority


@pytest.mark.parametrize("priority", [-1001, 1001, 0.0, True, "1", None])
def test_bad_priorities(priority: Any) -> None:
    with pytest.raises(ConfigError, match="a whole number from -1000 to 1000, higher first"):
        check_priority(priority)


# --- durations and instants


@pytest.mark.parametrize(("given_", "ms"), [(0, 0), (1, 1000), (0.0015, 2), (timedelta(minutes=2), 120_000)])
def test_durations(given_: Any, ms: int) -> None:
    assert to_ms(given_) == ms


@pytest.mark.parametrize("bad", [-1, -0.001, float("nan"), float("inf"), True, "1", None, timedelta(seconds=-1), 1e12])
def test_bad_durations(bad: Any) -> None:
    with pytest.raises(ConfigError, match=r"delay=.*: give seconds from 0 on, or a timedelta"):
        to_ms(bad, "delay")


def test_instants() -> None:
    noon = datetime(2030, 1, 1, 12, tzinfo=UTC)
    assert instant_ms(noon) == 1_893_499_200_000
    assert instant_ms(noon.astimezone(timezone(timedelta(hours=-5)))) == instant_ms(noon)
    assert instant_ms(1.5) == 1500
    assert to_datetime(instant_ms(noon)) == noon
    assert to_datetime(None) is None


@pytest.mark.parametrize("bad", ["now", None, True, float("nan"), float("inf"), 1e13])
def test_bad_instants(bad: Any) -> None:
    with pytest.raises(ConfigError, match=r"run_at=.*: give a datetime with a time zone, or seconds since the epoch"):
        instant_ms(bad)


def test_a_naive_datetime_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"has no time zone; use datetime\.now\(UTC\) or \.astimezone\(\)"):
        instant_ms(datetime(2030, 1, 1))
