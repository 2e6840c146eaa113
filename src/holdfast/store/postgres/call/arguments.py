"""What the functions take: jobs and settlements as arrays, each under the name that the function's header gives it.

Every value is text, or `None`, which all drivers send alike; the server casts it. An array of nothing but `None` is
`None`. The time is `clock`; where it is not in here, the caller adds it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ....core.job import ErrorRecord
from ...contract import (
    TRANSITION_OF,
    Complete,
    Conflict,
    Continuation,
    Failed,
    Filter,
    NewJob,
    Released,
    Retried,
    Session,
    Settlement,
    Snoozed,
)
from .array import blobs, numbers, texts

Arguments = dict[str, str | None]
_json = msgspec.json.Encoder().encode


def enqueue(
    now: str | None,
    queue: str,
    jobs: Sequence[NewJob],
    conflict: Conflict,
    request: str | None = None,
    epoch: str | None = None,
) -> Arguments:
    """Return the arguments of `enqueue`. `epoch`: the store that is meant, in a transaction of the caller's."""
    return {
        **_common(now, queue, jobs),
        "request": request,
        "epoch": epoch,
        "fresh": _flag(all(job.fresh for job in jobs)),
        "run_ats": numbers([job.run_at_ms for job in jobs]),
        "delays": numbers([job.delay_ms for job in jobs]),
        "keys": texts([job.key for job in jobs]),
        "dedups": texts([_json(job.dedup).decode() if job.dedup else None for job in jobs]),
        "blockers": texts([_blockers(job) for job in jobs]),
        "on_blocker_failed": texts([job.on_blocker_failed if job.blockers else None for job in jobs]),
        "updates": _flag(conflict.on_conflict == "update"),
        "requeues": _flag(conflict.on_failed == "requeue"),
        "update_payload": _flag(conflict.update_payload),
        "update_run_at": conflict.update_run_at,
        "reset_counts": _flag(conflict.resets),
    }


def enqueue_fresh(
    now: str | None, queue: str, jobs: Sequence[NewJob], places: Sequence[int] | None = None
) -> Arguments:
    """Return the arguments of `enqueue_fresh`. `places`: where each job stood in the call, if not here."""
    return {**_common(now, queue, jobs), "places": None if places is None else numbers(places)}


def _common(now: str | None, queue: str, jobs: Sequence[NewJob]) -> Arguments:
    task, tasks = _tasks(jobs)
    return {
        "clock": now,
        "queue": queue,
        "ids": texts([job.id for job in jobs]),
        "task": task,
        "tasks": tasks,
        "payloads": blobs([job.payload for job in jobs]),
        "priorities": numbers([job.priority or None for job in jobs]),
        "envelopes": blobs([job.envelope for job in jobs]),
        "overrides": texts([_json(job.overrides).decode() if job.overrides else None for job in jobs]),
        "ttls": numbers([job.result_ttl_ms for job in jobs]),
        "watchers": texts([job.watcher for job in jobs]),
    }


def _tasks(jobs: Sequence[NewJob]) -> tuple[str | None, str | None]:
    """Return the one task of all jobs, or the task of each."""
    tasks = {job.task for job in jobs}
    return (next(iter(tasks)), None) if len(tasks) == 1 else (None, texts([job.task for job in jobs]))


def _blockers(job: NewJob) -> str | None:
    return _json([(ref.queue, ref.id, ref.run) for ref in job.blockers]).decode() if job.blockers else None


def _flag(value: bool) -> str:
    return "true" if value else "false"


def continuation(then: Continuation | None) -> str | None:
    """Return the next job of a chain as `continue_chains` takes it."""
    if then is None:
        return None
    job = then.job
    fields = {
        "queue": then.queue, "id": job.id, "task": job.task, "payload": job.payload.hex(), "run_at": job.run_at_ms,
        "delay": job.delay_ms, "priority": job.priority or None, "key": job.key,
        "envelope": job.envelope.hex() if job.envelope else None, "overrides": job.overrides or None,
        "ttl": job.result_ttl_ms, "on_blocker_failed": job.on_blocker_failed,
        "blockers": [(ref.queue, ref.id, ref.run) for ref in job.blockers] or None,
    }  # fmt: skip
    return _json({name: value for name, value in fields.items() if value is not None}).decode()


def turn(
    now: str | None,
    session: Session,
    settlements: Sequence[Settlement],
    queues: Sequence[str],
    *,
    room: int,
    park: bool,
    held: int,
    only_suspects: bool,
    tells: bool = True,
) -> Arguments:
    """Return the arguments of `take_turn`, but for `lock_all`. `tells`: it is to tell the settings of all queues."""
    return {
        "clock": now,
        "session": session.id,
        "lease": str(session.lease_ms),
        "serves": texts(session.queues) if tells else None,
        "queues": texts(queues),
        "room": str(room),
        "park": _flag(park),
        "held": str(held),
        "only_suspects": _flag(only_suspects),
        "arrays": "true",
        **_settlements(settlements),
    }


class _Outcome(msgspec.Struct, frozen=True):
    """One settlement, as `turn` takes it."""

    kind: str
    data: bytes | None = None
    ttl: int | None = None
    run_at: int | None = None
    delay: int | None = None
    cause: str | None = None
    company: int | None = None
    error_type: str | None = None
    signature: str | None = None
    next: str | None = None


_NOTHING: Arguments = dict.fromkeys(
    ("kinds", "s_queues", "s_ids", "s_runs", "s_attempts", "data", "ttls", "run_ats", "delays", "causes", "companies",
     "error_types", "signatures", "nexts")
)  # fmt: skip


def _settlements(entries: Sequence[Settlement]) -> Arguments:
    """Return settlements as arrays; `kinds` is `None` where each is a completion."""
    if not entries:
        return _NOTHING
    leases = [entry.lease for entry in entries]
    settled: Arguments = {
        **_NOTHING,
        "s_queues": texts([lease.queue for lease in leases]),
        "s_ids": texts([lease.id for lease in leases]),
        "s_runs": numbers([lease.run for lease in leases]),
        "s_attempts": numbers([lease.attempt for lease in leases]),
    }
    completions = [entry for entry in entries if isinstance(entry, Complete)]
    if len(completions) == len(entries):
        settled["data"] = blobs([entry.result for entry in completions])
        settled["ttls"] = numbers([entry.result_ttl_ms for entry in completions])
        settled["nexts"] = texts([continuation(entry.then) for entry in completions])
        return settled
    outcomes = [_outcome(entry) for entry in entries]
    return {
        **settled,
        "kinds": texts([each.kind for each in outcomes]),
        "data": blobs([each.data for each in outcomes]),
        "ttls": numbers([each.ttl for each in outcomes]),
        "run_ats": numbers([each.run_at for each in outcomes]),
        "delays": numbers([each.delay for each in outcomes]),
        "causes": texts([each.cause for each in outcomes]),
        "companies": numbers([each.company for each in outcomes]),
        "error_types": texts([each.error_type for each in outcomes]),
        "signatures": texts([each.signature for each in outcomes]),
        "nexts": texts([each.next for each in outcomes]),
    }


def _outcome(entry: Settlement) -> _Outcome:
    kind = TRANSITION_OF[type(entry)]
    if isinstance(entry, Complete):
        return _Outcome(kind, entry.result, entry.result_ttl_ms, next=continuation(entry.then))
    if isinstance(entry, Snoozed):
        return _Outcome(kind, run_at=entry.run_at_ms, delay=entry.delay_ms)
    if isinstance(entry, Retried):
        return _with_error(
            _Outcome(kind, run_at=entry.run_at_ms, delay=entry.delay_ms, cause=str(entry.cause)), entry.error
        )
    if isinstance(entry, Failed):
        return _with_error(_Outcome(kind, ttl=entry.result_ttl_ms, cause=str(entry.cause)), entry.error)
    assert isinstance(entry, Released)
    return _with_error(_Outcome(kind, delay=entry.delay_ms, cause=str(entry.cause), company=entry.company), entry.error)


def _with_error(outcome: _Outcome, error: ErrorRecord | None) -> _Outcome:
    if error is None:
        return outcome
    return msgspec.structs.replace(outcome, data=_json(error), error_type=error.type, signature=error.signature)


def selection(which: Filter) -> dict[str, str | int | None]:
    """Return a filter as the statements and `requeue` take it."""
    return {
        "queue": which.queue,
        "states": texts(which.states) if which.states else None,
        "task": which.task,
        "key": which.key,
        "ids": texts(which.ids) if which.ids else None,
        "after": which.enqueued_after_ms,
        "until": which.enqueued_before_ms,
    }
