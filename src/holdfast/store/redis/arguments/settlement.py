"""How attempts ended, as groups of `SettlementArguments`; and the words for them."""

from __future__ import annotations

import msgspec

from ....core.job import ErrorRecord
from ....core.state import State
from ....core.transition import Reply
from ...contract import (
    TRANSITION_OF,
    Abort,
    Complete,
    Continuation,
    Lease,
    Settled,
    Settlement,
)
from ..keys import long, short
from .enqueue import spec
from .entry import Flat, in_groups
from .work import AbortFields

_json = msgspec.json.encode
_MORE = {"cause": "cause", "result_ttl_ms": "ttl", "run_at_ms": "run_at", "delay_ms": "delay", "company": "company"}
"""By the field of a settlement: its name in Lua."""
_CARRIED = {"envelope"}
"""What a plain next job may have."""
SETTLED = {
    **{word.value.encode(): Settled(word) for word in Reply},
    **{f"ok {state}".encode(): Settled(Reply.OK, state) for state in State},
}
"""By the server's word: how a settlement was taken."""


def settlement_arguments(entry: Settlement) -> tuple[bytes, bytes, bytes]:
    """Return a settlement as `SettlementArguments`; nothing more for a plain completion."""
    lease = entry.lease
    token = lease.run.to_bytes(6, "big") + lease.attempt.to_bytes(4, "big") + short(lease.id)
    if type(entry) is Complete and entry.then is not None:
        return token, entry.then.job.payload, _continuation(entry, entry.then)
    if type(entry) is Complete:
        return token, entry.result, b"" if entry.result_ttl_ms is None else _json({"ttl": entry.result_ttl_ms})
    error: ErrorRecord | None = getattr(entry, "error", None)
    return token, _json(error) if error else b"", _more(entry, error)


def size_of(entry: Settlement) -> int:
    """Return the bytes that a settlement brings, about: results and payloads may be large."""
    if type(entry) is not Complete:
        return 0
    return len(entry.result) if entry.then is None else len(entry.then.job.payload)


def aborts_of(queue: str, flat: Flat) -> list[tuple[Lease, Abort]]:
    """Return which handlers must stop, and why."""
    return [
        (Lease(queue, long(id), run, attempt), reason.decode())
        for id, run, attempt, reason in in_groups(flat, AbortFields)
    ]


def _continuation(entry: Complete, then: Continuation) -> bytes:
    job = then.job
    options = spec(job)
    if options.keys() <= _CARRIED and entry.result_ttl_ms is None:  # which the server need not decode
        where = ">" if then.queue == entry.lease.queue else f"@{then.queue}\0"
        carried = f"={options['envelope']}\0" if options else ""
        return f"{carried}{where}{job.id}\0{job.task or ''}".encode()
    following = {"queue": then.queue, "id": job.id, "task": job.task, "spec": options}
    return _json({"ttl": entry.result_ttl_ms, "next": following} if entry.result_ttl_ms else {"next": following})


def _more(entry: Settlement, error: ErrorRecord | None) -> bytes:
    more: dict[str, object] = {"name": TRANSITION_OF[type(entry)]}
    if error is not None:
        more.update(error_type=error.type, signature=error.signature)
    for field, name in _MORE.items():
        value = getattr(entry, field, None)
        if value is not None:
            more[name] = value
    return _json(more)
