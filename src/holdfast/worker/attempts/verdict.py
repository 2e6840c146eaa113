"""The verdict on an attempt whose handler raised: how its job is settled, and which error is kept of it."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from ...app.task import AnyTask
from ...core.duration import instant_ms, to_ms
from ...core.policy import Cause, Retry
from ...errors import Aborted, ConfigError, RetryAt, Snooze
from ...executor.failure import describe, is_permanent, kinds, retry_time
from ...executor.handler_transaction import VOID, is_store_trouble
from ...executor.process.exit import Evacuated, ProcessDied
from ...executor.shortage import CannotStart
from ...store.contract import Abort, Claimed, Failed, Released, Retried, Settlement, Snoozed

FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 100, 30_000
"""A job whose store was in trouble comes back after so long, twice as long each time."""


class TimedOut(TimeoutError):
    """The handler ran for longer than its time-out."""


class Raising(NamedTuple):
    """An attempt whose handler raised, as far as its verdict depends on it."""

    claimed: Claimed
    handler: AnyTask
    reason: Abort | None
    """Why it was told to stop."""
    result_ttl_ms: int | None
    undone: BaseException | None
    """What undid the writes of `job.complete()`."""


class Verdict(NamedTuple):
    """How an attempt is settled, `None` when its end does not count; and the error that is told of it."""

    settlement: Settlement | None
    error: BaseException


def verdict(attempt: Raising, error: BaseException) -> Verdict:
    """Return the verdict on an attempt whose handler raised this error."""
    if attempt.reason in VOID:
        return Verdict(None, error)
    if attempt.reason == "timeout":
        late = error if isinstance(error, TimedOut) else TimedOut("the handler ran for longer than its time-out")
        return Verdict(Retried(attempt.claimed.lease, describe(late, Cause.TIMEOUT), Cause.TIMEOUT), late)
    if (released := _released(attempt, error)) is not None:
        return Verdict(released, error)
    if isinstance(error, RetryAt):
        return Verdict(_retried_at(attempt, error), error.error)
    return Verdict(_judged(attempt, error), error)


def _released(attempt: Raising, error: BaseException) -> Settlement | None:
    """Return how a job is settled whose attempt was ended from outside; `None` where it ended by itself."""
    lease, reason = attempt.claimed.lease, attempt.reason
    if reason == "store_lost" and isinstance(error, asyncio.CancelledError | Aborted):
        return Released(lease, cause=Cause.WORKER)
    if reason == "store_lost":
        reason = None  # its handler did not end for that
    if isinstance(error, CannotStart) or (isinstance(error, Evacuated) and reason is None and not error.is_to_blame):
        return Released(lease, cause=Cause.WORKER)
    if isinstance(error, asyncio.CancelledError | Aborted) and reason == "shutdown":
        return Released(lease)
    if isinstance(error, Evacuated) or (isinstance(error, ProcessDied) and reason is not None):
        return Released(lease)
    if isinstance(error, ProcessDied):
        record = error.record()
        if error.is_over_limit:
            return Retried(lease, record)
        return Released(lease, 0, record, Cause.STALL, error.company)
    return None


def _judged(attempt: Raising, error: BaseException) -> Settlement:
    lease = attempt.claimed.lease
    if isinstance(error, Snooze):
        return _snoozed(attempt, error)
    if is_permanent(error) or _retry(attempt).is_permanent(kinds(error)):
        return Failed(lease, describe(error, Cause.PERMANENT), Cause.PERMANENT, attempt.result_ttl_ms)
    if is_store_trouble(error, attempt.undone):
        pause = min(FIRST_PAUSE_MS * 2 ** min(attempt.claimed.counters.releases, 20), LONGEST_PAUSE_MS)
        return Released(lease, pause, describe(error, Cause.RELEASE))
    own = retry_time(error)
    return Retried(lease, describe(error), run_at_ms=own.at_ms, delay_ms=own.delay_ms)


def _retried_at(attempt: Raising, told: RetryAt) -> Settlement:
    """Return the settlement of a failure whose handler says itself when it is tried again, whatever its class."""
    try:
        own = retry_time(told)
    except ConfigError as wrong:
        return Retried(attempt.claimed.lease, describe(wrong))
    return Retried(attempt.claimed.lease, describe(told.error), run_at_ms=own.at_ms, delay_ms=own.delay_ms)


def _retry(attempt: Raising) -> Retry:
    overrides = attempt.claimed.overrides
    declared: Retry = attempt.handler.setting("retry")
    return overrides.retry if overrides and overrides.retry else declared


def _snoozed(attempt: Raising, error: Snooze) -> Settlement:
    lease = attempt.claimed.lease
    try:
        if error.at is not None:
            return Snoozed(lease, run_at_ms=instant_ms(error.at, "Snooze(at)"))
        return Snoozed(lease, delay_ms=to_ms(error.after or 0, "Snooze(after)"))
    except ConfigError as wrong:
        return Retried(lease, describe(wrong))
