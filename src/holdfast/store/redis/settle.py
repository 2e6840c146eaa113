"""A turn: how attempts ended, as arguments, three for each; and what the server answers, queue by queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ...core.job import ErrorRecord
from ...core.limit import QueueSettings
from ...core.state import State
from ...core.transition import Reply
from ..contract import (
    Abort,
    Claimed,
    Complete,
    Continuation,
    Failed,
    Lease,
    Released,
    Retried,
    Session,
    Settled,
    Settlement,
    Snoozed,
    Turn,
)
from .keys import long, short
from .order import spec

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


def size_of(entry: Settlement) -> int:
    """Return the bytes that a settlement brings, about: results and payloads may be large."""
    if type(entry) is not Complete:
        return 0
    return len(entry.result) if entry.then is None else len(entry.then.job.payload)


def _going_on(entry: Complete, then: Continuation) -> bytes:
    job = then.job
    options = spec(job)
    if not options and entry.result_ttl_ms is None:  # which the server need not decode
        where = ">" if then.queue == entry.lease.queue else f"@{then.queue}\0"
        return f"{where}{job.id}\0{job.task or ''}".encode()
    following = {"queue": then.queue, "id": job.id, "task": job.task, "spec": options}
    return _json({"ttl": entry.result_ttl_ms, "next": following} if entry.result_ttl_ms else {"next": following})


def _more(entry: Settlement, error: ErrorRecord | None) -> bytes:
    more: dict[str, Any] = {"name": _NAME[type(entry)]}
    if error is not None:
        more.update(error_type=error.type, signature=error.signature)
    for field, name in (
        ("cause", "cause"),
        ("result_ttl_ms", "ttl"),
        ("run_at_ms", "run_at"),
        ("delay_ms", "delay"),
        ("company", "company"),
    ):
        value = getattr(entry, field, None)
        if value is not None:
            more[name] = value
    return _json(more)


SETTLED = {
    **{word.value.encode(): Settled(word) for word in Reply},
    **{f"ok {state}".encode(): Settled(Reply.OK, state) for state in State},
}
_STALE = Settled(Reply.STALE)


class Work:
    """A turn while it is made of several replies."""

    def __init__(
        self,
        session: Session,
        settlements: Sequence[Settlement],
        order: list[str],
        room: int,
        held: int = 0,
        only_suspects: bool = False,
    ) -> None:
        self.session = session
        self.order = order if room > 0 else []
        self.room = room
        self._held = held
        self._only_suspects = only_suspects
        self.settled: list[Settled] = [_STALE] * len(settlements)
        self.entries: dict[str, list[tuple[int, Settlement]]] = {}
        for index, entry in enumerate(settlements):
            self.entries.setdefault(entry.lease.queue, []).append((index, entry))
        self.asked: dict[str, Sequence[tuple[int, Settlement]]] = {}
        self.claimed: list[Claimed] = []
        self.broken: list[tuple[str, int]] = []
        """What was claimed and cannot be read, by queue and run."""
        self.next_at: dict[str, int] = {}
        self.settings: dict[str, QueueSettings] = {}
        self.aborts: dict[str, list[tuple[Lease, Abort]]] = {}
        self.waiting: dict[str, bool] = {}
        self.posted: list[tuple[str, list[Any]]] = []
        """Queues with messages for others, and the first of these."""
        self.now = 0
        self.suspects: list[str] = []
        self.late = self.more = self.evicted = self.unsure = False

    @property
    def asks(self) -> str:
        """What the session asks for: how many jobs, beside how many that it holds, and whether suspects only."""
        return f"{self.room} {self._held + len(self.claimed)}{' only' if self._only_suspects else ''}"

    def took(self, jobs: list[Claimed]) -> None:
        """The session holds these, too: of a suspect it has no more company than that allows."""
        held = self._held + len(self.claimed)
        most = [job.company - held for job in jobs if job.company is not None]
        self.room = min([self.room, *most]) - len(jobs)
        self.claimed += jobs

    def turn(self, given: list[Claimed], told: int) -> Turn:
        """Return the whole of it, with what was claimed before, and a word for each of the first settlements."""
        instants = [at for at in self.next_at.values() if at >= 0]
        return Turn(
            late=self.late,
            settled=self.settled[:told],
            claimed=given + self.claimed,
            next_at_ms=min(instants) if instants else None,
            now_ms=self.now,
            settings=self.settings,
            more=self.more,
            suspects=tuple(self.suspects),
            aborts=[each for found in self.aborts.values() for each in found],
            unsure=self.unsure,
        )


def aborts_of(queue: str, flat: list[Any]) -> list[tuple[Lease, Abort]]:
    """Return whose handlers must stop, and why."""
    return [
        (Lease(queue, long(flat[at]), flat[at + 1], flat[at + 2]), flat[at + 3].decode())
        for at in range(0, len(flat), 4)
    ]
