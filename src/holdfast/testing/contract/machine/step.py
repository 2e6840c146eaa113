"""The steps of the machine: what they are drawn from, and how often each is taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from hypothesis import strategies as st

from ....core.chain import OnBlockerFailed
from ....core.job import ErrorRecord
from ....core.limit import QueueSettings, Rate, Retention
from ....core.policy import Cause, Retry
from ....store.contract import (
    Complete,
    Conflict,
    DedupSpec,
    Failed,
    Lease,
    Released,
    Retried,
    Settlement,
    Snoozed,
)

T = TypeVar("T")
RETRY = Retry(failures=2, stalls=3, timeouts=2, releases=3, attempts=5, snoozes=3, initial=1.0, maximum=2.0)
SETTINGS: dict[str, Any] = {"result_ttl_ms": 20_000, "retention": {"failed": 120.0}}
IDS = [f"i{number}" for number in range(8)]
KEYS = ["a", "b"]
ERROR = ErrorRecord(type="Odd", message="no good")
LEASE_MS = 15_000
SLOTS = 4
"""What each worker has room for: a job that stalls with it is tried again beside one other, then alone."""
LOOK_EVERY = 4
"""Looks that are a call for each id, chain or blocked job come after every so many steps."""

# Tokens that come back in 1/1024 of a second are exact in binary, so that both sides agree to the last bit.
RATES = st.sampled_from([None, Rate(1, per=1.024), Rate(4, per=4.096)])
SMALL = st.sampled_from([None, 1, 2])
DELAYS = st.sampled_from([None, None, None, 0, 1000])
ids = st.sampled_from(IDS)
keys = st.sampled_from([None, *KEYS])
priorities = st.integers(-1, 1)
workers = st.integers(0, 2)
picks = st.integers(0, 9)
ends = st.sampled_from(
    [
        "complete",
        "failure",
        "failure with a time",
        "timeout",
        "fail",
        "snooze",
        "release",
        "release later",
        "stall",
        "free",
        "stall in company",
        "go on",
        "go on",
        "go on",
        "go on later",
        "go on after",
    ]
)
conflicts = st.builds(
    Conflict,
    on_conflict=st.sampled_from(["keep", "update"]),
    on_failed=st.sampled_from(["keep", "requeue"]),
    update_payload=st.booleans(),
    update_run_at=st.sampled_from(["always", "never", "if_later", "if_earlier"]),
    reset_counts=st.sampled_from([None, True, False]),
)
dedups = st.none() | st.builds(
    DedupSpec,
    key=st.sampled_from(["d0", "d1"]),
    scope=st.sampled_from(["incomplete", "any"]),
    exclude=st.sampled_from([(), ("i0",)]),
)


STEPS: dict[str, tuple[int, dict[str, st.SearchStrategy[Any]]]] = {}


def often(weight: int, **arguments: st.SearchStrategy[Any]) -> Callable[[T], T]:
    """The method is a step of the machine, taken so often; a single rule chooses among them by these weights."""

    def note(step: T) -> T:
        STEPS[step.__name__] = (weight, arguments)  # type: ignore[attr-defined]
        return step

    return note


@st.composite
def steps(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """Return the name of a step, and its arguments."""
    name = draw(st.sampled_from([name for name, (weight, _) in STEPS.items() for _ in range(weight)]))
    return name, draw(st.fixed_dictionaries(STEPS[name][1]))


blockers: st.SearchStrategy[list[str]] = st.lists(ids, max_size=3, unique=True) | st.just([])
policies: st.SearchStrategy[OnBlockerFailed] = st.sampled_from(["fail", "cancel", "ignore"])


def queue_settings(limits: dict[str, Any]) -> QueueSettings:
    retention = msgspec.convert(SETTINGS["retention"], Retention)
    return QueueSettings(**{**SETTINGS, "retention": retention, **limits})


def settlement(lease: Lease, how: str) -> Settlement:
    ways: dict[str, Callable[[], Settlement]] = {
        "complete": lambda: Complete(lease, b"%d/%d" % (lease.run, lease.attempt)),
        "failure": lambda: Retried(lease, ERROR, Cause.FAILURE),
        "failure with a time": lambda: Retried(lease, ERROR, Cause.FAILURE, delay_ms=700),
        "timeout": lambda: Retried(lease, ERROR, Cause.TIMEOUT),
        "fail": lambda: Failed(lease, ERROR),
        "snooze": lambda: Snoozed(lease, delay_ms=1500),
        "release": lambda: Released(lease),
        "release later": lambda: Released(lease, 1500),
        "stall": lambda: Released(lease, error=ERROR, cause=Cause.STALL),
        "free": lambda: Released(lease, cause=Cause.WORKER),
        "stall in company": lambda: Released(lease, error=ERROR, cause=Cause.STALL, company=3),
    }
    return ways[how]()
