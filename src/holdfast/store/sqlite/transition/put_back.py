"""retry, release, snooze, and what reap shares with them: a run waits for its next attempt, or fails at a limit."""

from __future__ import annotations

import random
from typing import Literal

from ....core.job import ErrorRecord
from ....core.policy import COUNTER, Cause, Retry, effective, too_many, verdict
from ....core.state import State
from ....core.suspect import company_after
from ...contract import Released, Retried, Snoozed
from ..tx import Row, Tx
from .fail import fail, overrides
from .row import encoded
from .update import merge_successor

Exit = Literal["retry", "release", "snooze", "reap"]


def retry(tx: Tx, row: Row, entry: Retried) -> State:
    """Retry after the policy's wait, or at the time that the error brought; fail at the limit."""
    own = entry.run_at_ms is not None or entry.delay_ms is not None
    return put_back(tx, row, entry.cause, entry.error, exit="retry", own=_time(tx, entry) if own else None)


def release(tx: Tx, row: Row, entry: Released) -> State:
    """Release to the old place in the queue, or after a delay; fail at the limit."""
    return put_back(tx, row, entry.cause, entry.error, exit="release", delay=entry.delay_ms, company=entry.company)


def snooze(tx: Tx, row: Row, entry: Snoozed) -> State:
    """Snooze until the time that the handler asked for; fail at the limit."""
    retry = effective(tx.policy(row["queue"], row["task"]), overrides(row)).retry
    snoozes = row["snoozes"] + 1
    if verdict(retry, Cause.SNOOZE, snoozes) == "fail":
        return _end(tx, row, Cause.SNOOZE, snoozes, None, "snooze", Cause.SNOOZE)
    if _is_capped(row, retry):
        return _end(tx, row, Cause.ATTEMPTS, _tried(row), None, "snooze", Cause.SNOOZE)
    _store(tx, {**row, "snoozes": snoozes}, "snooze", None, run_at=_time(tx, entry), cause=None)
    return State(tx.job(row["run"])["state"])  # type: ignore[index]


def put_back(
    tx: Tx, row: Row, cause: Cause, error: ErrorRecord | None, *, exit: Exit, delay: int = 0, company: int = 1,
    own: int | None = None,
) -> State:  # fmt: skip
    """Count what ended the attempt, if it costs anything, and put the run back; or fail it at its limit.

    `company` is how many jobs at most ran where it stalled, `own` the time that a failure brought.
    """
    if cause is Cause.WORKER:
        return _hand_back(tx, {**row, "spared": row["spared"] + 1}, cause, error, exit, delay)
    policy = effective(tx.policy(row["queue"], row["task"]), overrides(row))
    counter = COUNTER[cause]
    counted = row[counter] + 1
    final = verdict(policy.retry, cause, counted) == "fail"
    if cause is Cause.STALL and (exit == "reap" or company > 1):  # a job that ran alone harmed no other
        company = min(company, row["company"] or company)
        row = {**row, "company": company_after(counted, policy.retry.stalls, company)}
        final = row["company"] is None
    if final:
        return _end(tx, row, cause, counted, error, exit, cause)
    if _is_capped(row, policy.retry):
        return _end(tx, row, Cause.ATTEMPTS, _tried(row), error, exit, cause)
    row = {**row, counter: counted}
    if exit == "retry":
        spread = random.uniform(-1, 1) if policy.retry.jitter else 0.0
        run_at = tx.now + policy.retry.backoff_ms(counted, spread) if own is None else own
        _store(tx, row, exit, error, run_at=run_at, cause=cause)
    else:
        stalled = exit == "release" and cause is Cause.STALL
        return _hand_back(tx, row, cause if stalled else None, error, exit, delay)
    return State(tx.job(row["run"])["state"])  # type: ignore[index]


def _tried(row: Row) -> int:
    return int(row["attempts"] - row["spared"])


def _is_capped(row: Row, retry: Retry) -> bool:
    """Return whether no attempt may follow, whatever ended this one."""
    return verdict(retry, Cause.ATTEMPTS, _tried(row)) == "fail"


def _end(tx: Tx, row: Row, limit: Cause, counted: int, error: ErrorRecord | None, exit: Exit, cause: Cause) -> State:
    """Fail a run that has reached a limit, with an attempt that ended by this cause."""
    if error is None:
        type, message = too_many(limit, counted)
        error = ErrorRecord(type=type, kind=limit, message=message)
    return fail(tx, row, error, limit, exit=exit, count=cause)


def _hand_back(tx: Tx, row: Row, cause: Cause | None, error: ErrorRecord | None, exit: Exit, delay: int) -> State:
    """Put the run back in its old place, or for a while."""
    _store(tx, row, exit, error, run_at=tx.now + delay if delay else row["run_at_ms"], cause=cause)
    return State(tx.job(row["run"])["state"])  # type: ignore[index]


def _store(tx: Tx, row: Row, exit: Exit, error: ErrorRecord | None, *, run_at: int, cause: Cause | None) -> None:
    """Store a run that waits for its next attempt, and merge it with its successor."""
    later = exit in ("retry", "snooze") or (exit == "release" and run_at > tx.now)
    state = State.SCHEDULED if later else State.WAITING
    tx.run_many(
        exit,
        "put_back",
        [
            {
                "run": row["run"],
                "now": tx.now,
                "state": state,
                "run_at": run_at,
                "ready_at": max(run_at, tx.now),
                "error": encoded(error) if error else row["error"],
                "signature": error.signature if error else row["signature"],
                "company": row["company"],
                "snoozes": row["snoozes"],
                "spared": row["spared"],
                **{name: row[name] for name in COUNTER.values()},
            }
        ],
    )
    tx.moved(row["queue"], row["state"], state)
    tx.append(exit, [row["run"]], cause=cause, ran=True, error=error)
    merge_successor(tx, row)
    tx.wake_for(row["queue"], run_at)


def _time(tx: Tx, entry: Snoozed | Retried) -> int:
    """Return when a run comes back that says so itself."""
    return tx.now + (entry.delay_ms or 0) if entry.run_at_ms is None else max(entry.run_at_ms, tx.now)
