"""How attempts ended, as the arguments of a turn: three for each."""

from __future__ import annotations

from typing import Any

import msgspec

from ...core.job import ErrorRecord
from ..contract import Complete, Continuation, Failed, NewJob, Released, Retried, Settlement, Snoozed
from .keys import short

_json = msgspec.json.encode
_NAME = {Complete: "complete", Retried: "retry", Failed: "fail", Snoozed: "snooze", Released: "release"}


def arguments(entry: Settlement) -> tuple[Any, ...]:
    """Return a token (run, attempt, id), a result or error, and the rest as JSON: nothing for a plain completion."""
    lease = entry.lease
    token = lease.run.to_bytes(6, "big") + lease.attempt.to_bytes(4, "big") + short(lease.id)
    if type(entry) is Complete and entry.then is not None:
        return token, entry.then.job.payload, _going_on(entry, entry.then)
    if type(entry) is Complete:
        return token, entry.result, b"" if entry.result_ttl_ms is None else _json({"ttl": entry.result_ttl_ms})
    error: ErrorRecord | None = getattr(entry, "error", None)
    return token, _json(error) if error else b"", _more(entry, error)


def _going_on(entry: Complete, then: Continuation) -> bytes:
    job = then.job
    following = {"queue": then.queue, "id": job.id, "task": job.task, "spec": spec(job)}
    return _json({"ttl": entry.result_ttl_ms, "next": following} if entry.result_ttl_ms else {"next": following})


def spec(job: NewJob) -> dict[str, Any]:
    """Return what is unusual about a job, for Lua."""
    found: dict[str, Any] = {
        "run_at": job.run_at_ms,
        "delay": job.delay_ms,
        "priority": job.priority or None,
        "key": job.key,
        "headers": _json(job.headers).decode() if job.headers else None,
        "overrides": _json(job.overrides).decode() if job.overrides else None,
        "ttl": job.result_ttl_ms,
        "watcher": job.watcher,
    }
    if job.dedup is not None:
        dedup = {"key": job.dedup.key, "scope": job.dedup.scope, "exclude": job.dedup.exclude}
        found["dedup"] = dedup if job.dedup.window_ms is None else {**dedup, "window": job.dedup.window_ms}
    if job.blockers:
        found["blockers"] = [(ref.queue, ref.id, ref.run) for ref in job.blockers]
        found["policy"] = job.on_blocker_failed
    return {name: value for name, value in found.items() if value is not None}


def _more(entry: Settlement, error: ErrorRecord | None) -> bytes:
    more: dict[str, Any] = {"name": _NAME[type(entry)]}
    if error is not None:
        more.update(error_type=error.type, signature=error.signature)
    for field, name in (("cause", "cause"), ("result_ttl_ms", "ttl"), ("run_at_ms", "run_at"), ("delay_ms", "delay")):
        value = getattr(entry, field, None)
        if value is not None:
            more[name] = value
    return _json(more)
