"""How attempts ended, as the arguments of a turn: six for each."""

from __future__ import annotations

from typing import Any

import msgspec

from ...core.job import ErrorRecord
from ..contract import Complete, Failed, Released, Retried, Settlement, Snoozed
from .keys import short

_json = msgspec.json.encode
_NAME = {Complete: "complete", Retried: "retry", Failed: "fail", Snoozed: "snooze", Released: "release"}


def arguments(entry: Settlement) -> tuple[Any, ...]:
    """Return name, run, attempt, id, result or error, and the rest as JSON."""
    lease = entry.lease
    if isinstance(entry, Complete):
        more = b"" if entry.result_ttl_ms is None else _json({"ttl": entry.result_ttl_ms})
        return "complete", lease.run, lease.attempt, short(lease.id), entry.result, more
    error: ErrorRecord | None = getattr(entry, "error", None)
    return (
        _NAME[type(entry)],
        lease.run,
        lease.attempt,
        short(lease.id),
        _json(error) if error else b"",
        _more(entry, error),
    )


def _more(entry: Settlement, error: ErrorRecord | None) -> bytes:
    more: dict[str, Any] = {}
    if error is not None:
        more.update(error_type=error.type, signature=error.signature)
    for field, name in (("cause", "cause"), ("result_ttl_ms", "ttl"), ("run_at_ms", "run_at"), ("delay_ms", "delay")):
        value = getattr(entry, field, None)
        if value is not None:
            more[name] = value
    return _json(more)
