"""How attempts ended, as the arguments of a turn: three for each."""

from __future__ import annotations

from typing import Any

import msgspec

from ...core.job import ErrorRecord
from ..contract import Complete, Failed, Released, Retried, Settlement, Snoozed
from .keys import short

_json = msgspec.json.encode
_NAME = {Complete: "complete", Retried: "retry", Failed: "fail", Snoozed: "snooze", Released: "release"}


def arguments(entry: Settlement) -> tuple[Any, ...]:
    """Return a token (run, attempt, id), a result or error, and the rest as JSON: nothing for a plain completion."""
    lease = entry.lease
    token = lease.run.to_bytes(6, "big") + lease.attempt.to_bytes(4, "big") + short(lease.id)
    if type(entry) is Complete:
        return token, entry.result, b"" if entry.result_ttl_ms is None else _json({"ttl": entry.result_ttl_ms})
    error: ErrorRecord | None = getattr(entry, "error", None)
    return token, _json(error) if error else b"", _more(entry, error)


def _more(entry: Settlement, error: ErrorRecord | None) -> bytes:
    more: dict[str, Any] = {"name": _NAME[type(entry)]}
    if error is not None:
        more.update(error_type=error.type, signature=error.signature)
    for field, name in (("cause", "cause"), ("result_ttl_ms", "ttl"), ("run_at_ms", "run_at"), ("delay_ms", "delay")):
        value = getattr(entry, field, None)
        if value is not None:
            more[name] = value
    return _json(more)
