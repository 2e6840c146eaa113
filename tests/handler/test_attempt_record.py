"""What a hook is told of an attempt's times and counters."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.core.job import ErrorRecord
from holdfast.core.policy import Cause, Counters
from holdfast.store.contract import Claimed, Failed, Lease, Released, Retried, Snoozed
from holdfast.worker.outcomes import AttemptRecord

LEASE = Lease("q", "x", 1, 2)
ERROR = ErrorRecord(type="E", message="m")


def claimed(**times: int) -> Claimed:
    known = {"run_at_ms": 0, "enqueued_at_ms": 0, "claimed_at_ms": 0, **times}
    return Claimed(
        lease=LEASE, task="t", payload=b"", priority=0, key=None, counters=Counters(attempts=2, stalls=1),
        **known,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("times", "waited"),
    [
        ({"enqueued_at_ms": 1000, "run_at_ms": 5000, "claimed_at_ms": 7500}, 2.5),
        ({"enqueued_at_ms": 1000, "run_at_ms": 0, "claimed_at_ms": 1250}, 0.25),
        ({"enqueued_at_ms": 1000, "run_at_ms": 2000, "claimed_at_ms": 1500}, 0.0),  # promoted, or the clock was set
    ],
)
def test_a_job_waits_from_when_it_is_due_to_its_claim(times: dict[str, int], waited: float) -> None:
    assert AttemptRecord(claimed(**times)).fields("claim", None)["waited"] == waited


@pytest.mark.parametrize(
    ("name", "entry", "counters"),
    [
        ("retry", Retried(LEASE, ERROR), {"failures": 1}),
        ("retry", Retried(LEASE, ERROR, Cause.TIMEOUT), {"timeouts": 1}),
        ("fail", Retried(LEASE, ERROR), {"failures": 1}),
        ("fail", Failed(LEASE, ERROR), {"failures": 1}),
        ("release", Released(LEASE), {"releases": 1}),
        ("release", Released(LEASE, cause=Cause.STALL), {"stalls": 2}),
        ("release", Released(LEASE, cause=Cause.WORKER), {}),
        ("snooze", Snoozed(LEASE, delay_ms=1), {}),
        ("cancel", Retried(LEASE, ERROR), {}),
        ("lost", Retried(LEASE, ERROR), {}),
    ],
)
def test_an_end_adds_what_it_counts(name: str, entry: Any, counters: dict[str, int]) -> None:
    assert AttemptRecord(claimed()).fields(name, entry)["counters"] == Counters(
        **{"attempts": 2, "stalls": 1, **counters}
    )


def test_a_handler_that_was_cancelled_has_no_error_of_its_own() -> None:
    story = AttemptRecord(claimed(), error=asyncio.CancelledError())
    assert "error" not in story.fields("release", Released(LEASE))
