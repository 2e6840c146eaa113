"""Calls and replies: what a transition's function takes and gives, as the contract has it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from ...core.job import ErrorRecord
from ...core.limit import QueueSettings
from ...core.state import State
from ...core.transition import Reply
from ..contract import (
    Answer,
    Claimed,
    Complete,
    Conflict,
    Continuation,
    Failed,
    Lease,
    NewJob,
    Released,
    Retried,
    Session,
    Settled,
    Settlement,
    Snoozed,
    Turn,
)
from ..row import claimed, corrupt, readable_settings, stored_error
from .array import blobs, numbers, texts

_json = msgspec.json.Encoder().encode
_COMPLETED = Settled(Reply.OK, State.COMPLETED)

ENQUEUE = (
    "SELECT * FROM holdfast.enqueue(%s::bigint, %s, %s, %s::boolean, %s::text[], %s, %s::text[], %s::bytea[],"
    " %s::bigint[], %s::bigint[], %s::integer[], %s::text[], %s::bytea[], %s::text[], %s::bigint[], %s::text[],"
    " %s::text[], %s::boolean, %s::boolean, %s::boolean, %s, %s::boolean, %s::boolean)"
)
FRESH = (
    "SELECT holdfast.enqueue_fresh(%s::bigint, %s, %s::text[], %s, %s::text[], %s::bytea[], %s::integer[], %s::bytea[],"
    " %s::text[], %s::bigint[], %s::text[], %s::integer[])"
)
ENQUEUE_BLOCKED = ENQUEUE.removesuffix(")") + ", %s::text[], %s::text[])"
TURN = (
    "SELECT * FROM holdfast.turn(%s::bigint, %s, %s::bigint, %s::text[], %s::text[], %s::text[], %s::text[],"
    " %s::bigint[], %s::integer[], %s::bytea[], %s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[],"
    " %s::integer, %s, %s, %s::text[], %s::integer, %s)"
)


class Info(msgspec.Struct, frozen=True):
    """What the first row of a turn says."""

    now: int
    evicted: bool = False
    late: bool = False
    words: list[str] | None = None
    next: int | None = None
    more: bool = False
    settings: dict[str, msgspec.Raw] | None = None
    aborts: list[tuple[str, str, int, int, str]] | None = None
    suspects: tuple[str, ...] = ()
    server: str = ""
    """When the server was started that answers: another one may have forgotten what was settled."""


_info = msgspec.json.Decoder(Info).decode


def enqueue(
    now: str | None,
    queue: str,
    jobs: Sequence[NewJob],
    conflict: Conflict,
    request: str | None,
    *,
    joined: bool = False,
) -> list[Any]:
    """Return the arguments of `enqueue`, all of them as text."""
    return [
        now, queue, request, _flag(all(job.fresh for job in jobs)),
        texts([job.id for job in jobs]),
        *_tasks(jobs),
        blobs([job.payload for job in jobs]),
        numbers([job.run_at_ms for job in jobs]),
        numbers([job.delay_ms for job in jobs]),
        numbers([job.priority or None for job in jobs]),
        texts([job.key for job in jobs]),
        *_extras(jobs),
        texts([_json(job.dedup).decode() if job.dedup else None for job in jobs]),
        texts([job.watcher for job in jobs]),
        _flag(conflict.on_conflict == "update"), _flag(conflict.on_failed == "requeue"),
        _flag(conflict.update_payload), conflict.update_run_at, _flag(conflict.resets), _flag(joined),
    ]  # fmt: skip


def waits_at_once(job: NewJob) -> bool:
    """True for a job that `enqueue_fresh` takes if nobody has its id."""
    return not (job.key or job.dedup or job.delay_ms or job.blockers) and job.run_at_ms is None


def keeps(conflict: Conflict) -> bool:
    """True when a job whose id is there changes nothing."""
    return conflict.on_conflict != "update" and conflict.on_failed != "requeue"


def fresh(now: str | None, queue: str, jobs: Sequence[NewJob], order: Sequence[int] | None) -> list[Any]:
    """Return the arguments of `enqueue_fresh`. `order`: the place that each job was given in, if not this one."""
    return [
        now, queue, texts([job.id for job in jobs]), *_tasks(jobs), blobs([job.payload for job in jobs]),
        numbers([job.priority or None for job in jobs]), *_extras(jobs), texts([job.watcher for job in jobs]),
        None if order is None else numbers(order),
    ]  # fmt: skip


def _tasks(jobs: Sequence[NewJob]) -> tuple[str | None, str | None]:
    """Return the one task of all jobs, or the task of each."""
    tasks = {job.task for job in jobs}
    return (next(iter(tasks)), None) if len(tasks) == 1 else (None, texts([job.task for job in jobs]))


def _extras(jobs: Sequence[NewJob]) -> list[str | None]:
    return [
        blobs([_json(job.headers) if job.headers else None for job in jobs]),
        texts([_json(job.overrides).decode() if job.overrides else None for job in jobs]),
        numbers([job.result_ttl_ms for job in jobs]),
    ]


def blockers(jobs: Sequence[NewJob]) -> list[Any]:
    """Return the further arguments of `enqueue` for jobs of which some wait for others."""
    return [
        texts([_refs(job) for job in jobs]),
        texts([job.on_blocker_failed if job.blockers else None for job in jobs]),
    ]


def _refs(job: NewJob) -> str | None:
    return _json([(ref.queue, ref.id, ref.run) for ref in job.blockers]).decode() if job.blockers else None


def continuation(then: Continuation | None) -> str | None:
    """Return the next job of a chain as `follow` takes it."""
    if then is None:
        return None
    job = then.job
    fields = {
        "queue": then.queue, "id": job.id, "task": job.task, "payload": job.payload.hex(), "run_at": job.run_at_ms,
        "delay": job.delay_ms, "priority": job.priority or None, "key": job.key,
        "headers": _json(job.headers).hex() if job.headers else None, "overrides": job.overrides or None,
        "ttl": job.result_ttl_ms, "policy": job.on_blocker_failed,
        "blockers": [(ref.queue, ref.id, ref.run) for ref in job.blockers] or None,
    }  # fmt: skip
    return _json({name: value for name, value in fields.items() if value is not None}).decode()


def continuations(settlements: Sequence[Settlement]) -> str | None:
    """Return the further argument of `turn`; `None` when no chain goes on."""
    return texts([continuation(entry.then) if isinstance(entry, Complete) else None for entry in settlements])


def _flag(value: bool) -> str:
    return "true" if value else "false"


def answer(row: Sequence[Any], *, ours: bool = False) -> Answer:
    """Return what became of one job. `ours` says that whatever holds the id, this call put there."""
    status, id, run, state, result, error = row
    if ours:
        status = "queued"
    if status == "queued":
        return Answer(status=status, id=id, run=run, state=State(state))
    return Answer(
        status=status, id=id, run=run, state=State(state), result=result,
        error=stored_error(error) if error is not None else None,
    )  # fmt: skip


def turn(
    now: str | None, session: Session, settlements: Sequence[Settlement], queues: Sequence[str], room: int, park: bool
) -> list[Any]:
    """Return the arguments of `turn`, all but the last."""
    return [
        now, session.id, str(session.lease_ms), texts(session.queues), *_settlements(settlements),
        texts(queues), str(room), park,
    ]  # fmt: skip


def _settlements(entries: Sequence[Settlement]) -> list[Any]:
    if not entries:
        return [None] * 10
    leases = [entry.lease for entry in entries]
    where = [
        texts([lease.queue for lease in leases]),
        texts([lease.id for lease in leases]),
        numbers([lease.run for lease in leases]),
        numbers([lease.attempt for lease in leases]),
    ]
    if all(type(entry) is Complete for entry in entries):
        results = blobs([entry.result for entry in entries])  # type: ignore[union-attr]
        ttls = numbers([entry.result_ttl_ms for entry in entries])  # type: ignore[union-attr]
        return [None, *where, results, ttls, None, None, None]
    parts = [_part(entry) for entry in entries]
    kinds, data, figures, causes, types, signatures = zip(*parts, strict=True)
    return [texts(kinds), *where, blobs(data), numbers(figures), texts(causes), texts(types), texts(signatures)]


_Part = tuple[str, bytes | None, int | None, str | None, str | None, str | None]


def _part(entry: Settlement) -> _Part:
    if isinstance(entry, Complete):
        return "complete", entry.result, entry.result_ttl_ms, None, None, None
    if isinstance(entry, Retried):
        return "retry", _json(entry.error), None, str(entry.cause), entry.error.type, entry.error.signature
    if isinstance(entry, Failed):
        error = entry.error
        return "fail", _json(error), entry.result_ttl_ms, str(entry.cause), error.type, error.signature
    if isinstance(entry, Released):
        cause = str(entry.cause) if entry.company == 1 else f"{entry.cause} {entry.company}"
        if entry.error is None:
            return "release", None, entry.delay_ms, cause, None, None
        error = entry.error
        return "release", _json(error), entry.delay_ms, cause, error.type, error.signature
    return _snooze(entry)


def _snooze(entry: Snoozed) -> _Part:
    if entry.run_at_ms is not None:
        return "snooze", None, entry.run_at_ms, None, None, None
    return "snooze", None, entry.delay_ms or 0, "delay", None, None


class Reader:
    """Decodes turns; settings that it has seen before cost nothing."""

    def __init__(self) -> None:
        self._known: dict[bytes, QueueSettings] = {}
        self._links: dict[str, tuple[str, int]] = {}
        """By session: which server answered it last, and how many connections had been made by then."""

    def turn(
        self, rows: Sequence[Sequence[Any]], count: int, session: str, connections: int
    ) -> tuple[Turn, list[tuple[Lease, ErrorRecord]]]:
        """Return the turn, and the claimed jobs that cannot be read."""
        info = _info(rows[0][0])
        if info.evicted:
            self.forget(session)
            return Turn(evicted=True, now_ms=info.now), []
        claimed, broken = claimed_rows((row[1:] for row in rows[1:]), info.now)
        settled = [_COMPLETED] * count if info.words is None else [_settled(word) for word in info.words]
        link = (info.server, connections)
        known, self._links[session] = self._links.get(session, link), link
        return Turn(
            late=info.late,
            settled=settled,
            claimed=claimed,
            next_at_ms=info.next,
            now_ms=info.now,
            settings={queue: self.settings(queue, bytes(raw)) for queue, raw in (info.settings or {}).items()},
            more=info.more,
            suspects=info.suspects,
            aborts=aborts(info.aborts),
            unsure=known != link,
        ), broken

    def forget(self, session: str) -> None:
        """The session is over."""
        self._links.pop(session, None)

    def settings(self, queue: str, raw: bytes) -> QueueSettings:
        """Return a queue's settings."""
        known = self._known.get(raw)
        if known is None:
            if len(self._known) > 1000:
                self._known.clear()
            known = self._known[raw] = readable_settings(queue, raw)
        return known


def aborts(found: Iterable[tuple[str, str, int, int, str]] | None) -> list[Any]:
    """Return which handlers must be told to stop, and why."""
    return [(Lease(queue, id, run, attempt), reason) for queue, id, run, attempt, reason in found or ()]


def _settled(word: str) -> Settled:
    reply, _, state = word.partition(":")
    return Settled(Reply(reply), State(state) if state else None)


def claimed_rows(rows: Iterable[Sequence[Any]], now: int) -> tuple[list[Claimed], list[tuple[Lease, ErrorRecord]]]:
    """Return jobs, and the leases of those that cannot be read."""
    jobs = []
    broken = []
    for row in rows:
        try:
            jobs.append(claimed(Lease(*row[:4]), now, row[4:18], row[19:23], row[18], row[23]))
        except msgspec.MsgspecError as error:
            broken.append((Lease(row[0], row[1], row[2], row[3]), corrupt(error)))
    return jobs, broken
