"""Limits of attempts, and how long a job waits before the next one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.policy import (
    FAIL_HANDLER_RETRY,
    Cause,
    Counters,
    Overrides,
    Policy,
    Retry,
    effective,
    spent,
    verdict,
)
from holdfast.errors import ConfigError


def test_the_defaults_of_the_design() -> None:
    retry = Retry()
    assert (retry.failures, retry.stalls, retry.timeouts, retry.releases) == (3, 3, 3, 100)
    assert (retry.initial, retry.multiplier, retry.maximum, retry.jitter) == (2, 2, 300, 0)
    assert (FAIL_HANDLER_RETRY.failures, FAIL_HANDLER_RETRY.initial, FAIL_HANDLER_RETRY.maximum) == (100, 10, 900)


def test_backoff_doubles_up_to_its_maximum() -> None:
    waits = [Retry().backoff_ms(n) for n in range(1, 11)]
    assert waits == [2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000, 300_000, 300_000]


@given(st.integers(1, 10**9), st.floats(-1, 1))
def test_backoff_never_overflows_and_stays_within_its_bounds(nth: int, spread: float) -> None:
    retry = Retry(initial=0.5, multiplier=10, maximum=60, jitter=0.5)
    assert 250 <= retry.backoff_ms(nth, spread) <= 90_000


def test_jitter_spreads_by_a_share() -> None:
    retry = Retry(initial=10, jitter=0.2)
    assert [retry.backoff_ms(1, spread) for spread in (-1, 0, 1)] == [8_000, 10_000, 12_000]


def test_caps_are_off_unless_set() -> None:
    assert (Retry().attempts, Retry().snoozes) == (None, None)
    assert verdict(Retry(), Cause.ATTEMPTS, 10**9) == verdict(Retry(), Cause.SNOOZE, 10**9) == "return"
    assert [verdict(Retry(attempts=2), Cause.ATTEMPTS, nth) for nth in (1, 2)] == ["return", "fail"]
    assert spent(Retry(snoozes=2), Counters(attempts=9), snoozes=2) is Cause.SNOOZE
    assert spent(Retry(attempts=9), Counters(attempts=9), tried=9) is Cause.ATTEMPTS
    assert spent(Retry(attempts=9), Counters(attempts=9), tried=8) is None


@pytest.mark.parametrize("cause", [Cause.FAILURE, Cause.TIMEOUT, Cause.STALL, Cause.RELEASE])
def test_a_limit_of_n_means_that_the_nth_is_final(cause: Cause) -> None:
    retry = Retry(failures=2, timeouts=2, stalls=2, releases=2)
    assert verdict(retry, cause, 1) == "return"
    assert verdict(retry, cause, 2) == "fail"
    unlimited = Retry(failures=None, timeouts=None, stalls=None, releases=None)
    assert verdict(unlimited, cause, 10**9) == "return"


def test_a_permanent_failure_is_final_at_once() -> None:
    assert verdict(Retry(failures=None), Cause.PERMANENT, 1) == "fail"


def test_no_counter_eats_the_budget_of_another() -> None:
    counters = Counters(attempts=50, failures=2, stalls=2, timeouts=2, releases=99)
    assert spent(Retry(), counters) is None
    assert spent(Retry(timeouts=2), counters) is Cause.TIMEOUT
    assert spent(Retry(failures=None, stalls=1), counters) is Cause.STALL


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"failures": 0}, "Retry(failures=0): a limit is a whole number from 1 to 1000000000, or None"),
        ({"stalls": -1}, "Retry(stalls=-1): a limit is a whole number from 1 to 1000000000, or None"),
        ({"timeouts": 1.5}, "Retry(timeouts=1.5): a limit is a whole number from 1 to 1000000000, or None"),
        ({"attempts": 0}, "Retry(attempts=0): a limit is a whole number from 1 to 1000000000, or None"),
        ({"snoozes": 0.5}, "Retry(snoozes=0.5): a limit is a whole number from 1 to 1000000000, or None"),
        ({"releases": True}, "Retry(releases=True): a limit is a whole number from 1 to 1000000000, or None"),
        ({"initial": -1}, "Retry: initial and maximum are at least 0, and multiplier at least 1"),
        ({"multiplier": 0.5}, "Retry: initial and maximum are at least 0, and multiplier at least 1"),
        ({"initial": float("nan")}, "Retry: initial and maximum are at least 0"),
        ({"maximum": float("inf")}, "Retry: initial and maximum are at least 0"),
        ({"initial": "2"}, "Retry(initial='2'): a number"),
        ({"jitter": 2}, "Retry(jitter=2): jitter is a share from 0 to 1"),
    ],
)
def test_a_bad_retry_gives_one_clear_line(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Retry(**values)
    assert message in str(caught.value)


def test_a_callers_overrides_hold_above_the_policy() -> None:
    policy = Policy(retry=Retry(failures=5), timeout_ms=1000, size=3)
    assert effective(policy, None) is policy
    assert effective(policy, Overrides()) is policy
    assert effective(policy, Overrides(timeout_ms=5)) == Policy(retry=Retry(failures=5), timeout_ms=5, size=3)
    changed = effective(policy, Overrides(retry=Retry(failures=1)))
    assert (changed.retry.failures, changed.timeout_ms) == (1, 1000)
