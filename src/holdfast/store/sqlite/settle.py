"""complete, retry, fail, snooze, release: how an attempt ends, fenced by its lease."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

import msgspec

from ...core.job import ErrorRecord, Progress
from ...core.policy import COUNTER, Cause, effective, verdict
from ...core.state import State
from ...core.suspect import company_after
from ...core.transition import Reply, judge
from ..contract import (
    Complete,
    Failed,
    Lease,
    Released,
    Retried,
    Session,
    Settled,
    Settlement,
    Snoozed,
)
from . import blocker, chain, lane, update
from .end import cancelled, fail, over, overrides
from .tx import Row, Tx

_json = msgspec.json.Encoder().encode
_NAME = {Complete: "complete", Retried: "retry", Failed: "fail", Snoozed: "snooze", Released: "release"}


def settle(tx: Tx, session: Session, settlements: Sequence[Settlement]) -> list[Settled]:
    """Every settlement has its word, in the order given."""
    if len(settlements) > 1 and all(type(entry) is Complete for entry in settlements):
        done = _complete_all(tx, session, settlements)  # type: ignore[arg-type]
        if done is not None:
            return done
    return [_settle(tx, session, entry) for entry in settlements]


def _complete_all(tx: Tx, session: Session, entries: Sequence[Complete]) -> list[Settled] | None:
    """complete: a whole batch at once; `None`, with nothing changed, when one of it needs a closer look."""
    last = [entry for entry in entries if entry.then is None]
    going_on = [entry for entry in entries if entry.then is not None]
    results = _results(entries)
    if results is None or any(tx.run("session", "busy").fetchone()):
        return None
    held = _holds_all(tx, session, entries)
    if held is None:
        return None
    if last:
        _finish_all(tx, last, results, chained=held > 0)
    if going_on:
        chain.go_on(tx, going_on)
    return [Settled(Reply.OK, State.COMPLETED)] * len(entries)


def _finish_all(tx: Tx, entries: Sequence[Complete], results: str, *, chained: bool) -> None:
    """These jobs, which do not continue, are over, and so are the chains whose last job one of them was."""
    settings = tx.settings(entries[0].lease.queue)
    kept = settings.retention.completed_ms
    runs = [entry.lease.run for entry in entries]
    tx.run("complete", "finish_all", results=results, now=tx.now, queue_ttl=settings.result_ttl_ms, kept=kept)
    tx.append("complete", runs, ran=True)
    if chained:
        later = [run for (run,) in tx.run("chain", "members_among", runs=json.dumps(runs)).fetchall()]
        for run in later:
            over(tx, tx.job(run) or {}, State.COMPLETED)
        runs = list({*runs} - {*later})
    blocker.report(tx, runs)


def _results(entries: Sequence[Complete]) -> str | None:
    """Return the results by run as one JSON text, for one statement; `None` when they are not all alike text."""
    queue = entries[0].lease.queue
    results, seen = {}, set()
    for entry in entries:
        seen.add(entry.lease.run)
        if entry.then is not None and entry.lease.queue == queue:
            continue
        if entry.lease.queue != queue or entry.result_ttl_ms is not None or b"\0" in entry.result:
            return None
        try:
            results[entry.lease.run] = entry.result.decode()
        except UnicodeDecodeError:
            return None
    return json.dumps(results) if len(seen) == len(entries) else None


def _holds_all(tx: Tx, session: Session, entries: Sequence[Complete]) -> int | None:
    """Return how many continue a chain; `None` unless every lease is held.

    A run's attempts never fall, so equal sums mean equal attempts.
    """
    runs = [entry.lease.run for entry in entries]
    *held, chained = tx.run("complete", "held", session=session.id, runs=json.dumps(runs)).fetchone()
    return int(chained) if held == [len(runs), sum(entry.lease.attempt for entry in entries)] else None


def _completion(tx: Tx, session: Session, entry: Complete) -> tuple[object, ...]:
    lease = entry.lease
    settings = tx.settings(lease.queue)
    kept = settings.retention.completed_ms
    ttl = settings.result_ttl_ms
    return entry.result, tx.now, entry.result_ttl_ms, ttl, kept, lease.run, lease.attempt, session.id


def _settle(tx: Tx, session: Session, entry: Settlement) -> Settled:
    row = tx.job(entry.lease.run)
    reply = _word(session, row, entry.lease, _NAME[type(entry)])
    if row is None or (reply is Reply.STALE and row["session"] == session.id):  # it knows by now
        tx.run("session", "forget_abort", run=entry.lease.run, attempt=entry.lease.attempt)
    if row is None or reply is not Reply.OK:
        return Settled(reply)
    if row["state"] != "active" or row["attempts"] != entry.lease.attempt:
        return Settled(reply, State(row["state"]))  # a repeat: it was done before
    state = _apply(tx, session, row, entry)
    tx.run("session", "forget_abort", run=row["run"], attempt=row["attempts"])
    lane.recheck_all(tx, row["queue"], {row["key"]})
    return Settled(reply, state)


def _word(session: Session, row: Row | None, lease: Lease, name: str) -> Reply:
    if row is None or (row["queue"], row["id"]) != (lease.queue, lease.id):
        return judge(name, None)
    ours = row["session"] == session.id and row["attempts"] == lease.attempt
    active = row["state"] == "active"
    repeated = ours and not active and row["exit"] == name
    # The attempt before is remembered too: a repeat may come when somebody else has claimed the job already.
    if row["last_session"] == session.id and row["attempts"] == lease.attempt + 1:
        repeated = row["last_exit"] == name
    return judge(name, State(row["state"]), holds_lease=ours and active, repeated=repeated)


def holds(tx: Tx, session: Session, lease: Lease, name: str) -> Reply:
    """Return the word for a step that needs the lease but does not end it."""
    word = _word(session, tx.job(lease.run), lease, name)
    return word if word is not Reply.OK or is_alive(tx, session) else Reply.STALE


def is_alive(tx: Tx, session: Session) -> bool:
    """True until the session is declared dead, in whichever of its queues."""
    _, count, _, _ = tx.run("session", "alive", session=session.id).fetchone()
    return int(count) >= len(session.queues)


def _apply(tx: Tx, session: Session, row: Row, entry: Settlement) -> State:
    if row["cancel"] and not (isinstance(entry, Complete) and entry.then is None):  # to go on is no end
        return cancelled(tx, row, _NAME[type(entry)])
    if isinstance(entry, Complete):
        return _complete(tx, session, row, entry)
    if isinstance(entry, Retried):
        return come_back(tx, row, entry.cause, entry.error, exit="retry")
    if isinstance(entry, Failed):
        return fail(tx, row, entry.error, entry.cause, ttl=entry.result_ttl_ms, count=True)
    if isinstance(entry, Released):
        return come_back(tx, row, entry.cause, entry.error, exit="release", delay=entry.delay_ms, company=entry.company)
    return _snooze(tx, row, entry)


def _complete(tx: Tx, session: Session, row: Row, entry: Complete) -> State:
    if entry.then is not None:
        chain.go_on(tx, [entry])
        if row["position"]:  # who waits for the first job waits for the chain
            tx.tell_watchers(row, State.COMPLETED)
        return State.COMPLETED
    tx.run_many("complete", "finish", [_completion(tx, session, entry)])
    tx.append("complete", [row["run"]], ran=True)
    over(tx, row, State.COMPLETED)
    return State.COMPLETED


def come_back(
    tx: Tx, row: Row, cause: Cause, error: ErrorRecord | None, *, exit: str, delay: int = 0, company: int = 1
) -> State:
    """retry, release, reap: the run counts its cause, if it costs anything, and waits again, or fails at its limit.

    `company` is how many jobs at most ran where it stalled.
    """
    if cause is Cause.WORKER:
        return _hand_back(tx, row, cause, error, exit, delay)
    policy = effective(tx.policy(row["queue"], row["task"]), overrides(row))
    counter = COUNTER[cause]
    counted = row[counter] + 1
    final = verdict(policy.retry, cause, counted) == "fail"
    if cause is Cause.STALL and (exit == "reap" or company > 1):  # a process that ran nothing else harmed nobody else
        company = min(company, row["company"] or company)
        row = {**row, "company": company_after(counted, policy.retry.stalls, company)}
        final = row["company"] is None
    if final:
        error = error or ErrorRecord(
            type="TooMany" + counter.capitalize(),
            kind=cause,
            message=f"{counted} {counter}, and no more are allowed",
        )
        return fail(tx, row, error, cause, exit=exit, count=True)
    row = {**row, counter: counted}
    if exit == "retry":
        spread = random.uniform(-1, 1) if policy.retry.jitter else 0.0
        wait = policy.retry.backoff_ms(counted, spread)
        _put_back(tx, row, exit, error, run_at=tx.now + wait, cause=cause)
    else:
        stalled = exit == "release" and cause is Cause.STALL
        return _hand_back(tx, row, cause if stalled else None, error, exit, delay)
    return State(tx.job(row["run"])["state"])  # type: ignore[index]


def _hand_back(tx: Tx, row: Row, cause: Cause | None, error: ErrorRecord | None, exit: str, delay: int) -> State:
    """The run waits in its old place, or for a while."""
    _put_back(tx, row, exit, error, run_at=tx.now + delay if delay else row["run_at_ms"], cause=cause)
    return State(tx.job(row["run"])["state"])  # type: ignore[index]


def _put_back(tx: Tx, row: Row, exit: str, error: ErrorRecord | None, *, run_at: int, cause: Cause | None) -> None:
    """The run waits for its next attempt, at its time or in its old place, merged with its successor."""
    later = run_at > tx.now
    tx.run_many(
        exit,
        "put_back",
        [
            {
                "run": row["run"],
                "now": tx.now,
                "state": "scheduled" if later else "waiting",
                "run_at": run_at,
                "ready_at": max(run_at, tx.now),
                "error": _json(error) if error else row["error"],
                "company": row["company"],
                **{name: row[name] for name in COUNTER.values()},
            }
        ],
    )
    tx.append(exit, [row["run"]], cause=cause, ran=True, error=error)
    update.absorb(tx, row)
    tx.wake_for(row["queue"], run_at)


def _snooze(tx: Tx, row: Row, entry: Snoozed) -> State:
    run_at = tx.now + (entry.delay_ms or 0) if entry.run_at_ms is None else max(entry.run_at_ms, tx.now)
    _put_back(tx, row, "snooze", None, run_at=run_at, cause=None)
    return State(tx.job(row["run"])["state"])  # type: ignore[index]


def progress(tx: Tx, session: Session, lease: Lease, report: Progress | None, checkpoint: bytes | None) -> Reply:
    """progress: how far it is, and what its next attempt should know, stand with the run."""
    reply = holds(tx, session, lease, "progress")
    if reply is Reply.OK:
        encoded = _json(report) if report is not None else None
        tx.run("progress", "store", run=lease.run, progress=encoded, checkpoint=checkpoint)
        if tx.run("progress", "noted", run=lease.run, now=tx.now).rowcount:
            fraction, message = (report.fraction, report.message) if report else (None, None)
            tx.run("event", "append_progress", run=lease.run, now=tx.now, fraction=fraction, message=message)
            tx.tell_progress(lease)
    return reply
