"""Rows of a store with tables, as the contract has them. SQLite and PostgreSQL name their columns alike."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, get_args

import msgspec

from ..core.chain import OPEN, ChainRef
from ..core.envelope import EMPTY, opened, readable
from ..core.event import Event
from ..core.job import ErrorRecord, JobRecord, Progress
from ..core.limit import QueueSettings
from ..core.policy import Counters, Overrides, Policy, adjusted
from ..core.state import State
from ..errors import ConfigError
from .contract import Claimed, Corrupt, Finding, Lease, ReapedJob, Session, SessionCommand

log = logging.getLogger("holdfast")
Row = Mapping[str, Any]
T = TypeVar("T")
LAST = 2**62
SHOWN = 20
"""So many records that were set aside are shown by name."""
_overrides = msgspec.json.Decoder(Overrides).decode
_error = msgspec.json.Decoder(ErrorRecord).decode
UNTROUBLED = tuple(Counters(attempts=number) for number in range(10))
"""The counters of runs that nothing happened to, by attempts: most runs, and every event, have one of these."""
FRESH = UNTROUBLED[1]
_STATES = {str(state): state for state in State}
COMMANDS: dict[str, SessionCommand] = {word: word for word in get_args(SessionCommand)}


def record(row: Row, now: int, chain: ChainRef | None) -> JobRecord:
    """Return a job as everybody else sees it."""
    return JobRecord(
        queue=row["queue"],
        id=row["id"],
        run=row["run"],
        task=row["task"],
        state=State(row["state"]),
        payload=row["payload"],
        priority=row["priority"],
        key=row["key"],
        run_at_ms=row["run_at_ms"],
        enqueued_at_ms=row["enqueued_at_ms"],
        started_at_ms=row["claimed_at_ms"],
        finished_at_ms=row["finished_at_ms"],
        counters=_counters(row, row["attempts"]),
        worker=row["session"],
        result=row["result"],
        error=decoded(row["error"], ErrorRecord),
        progress=decoded(row["progress"], Progress),
        checkpoint=row["checkpoint"],
        envelope=readable(row["envelope"]) if row["envelope"] else EMPTY,
        holds_id=bool(row["held"]) and not (row["free_at_ms"] is not None and row["free_at_ms"] <= now),
        expires_at_ms=row["expires_at_ms"],
        cancel_requested=bool(row["cancel"]),
        successor=bool(row["successor"]),
        chain=chain,
        position=row["position"],
        chain_state=None if row["chain_state"] is None else outcome(row),
        blockers=(row["blockers"] or 0) if row["state"] == "blocked" else 0,
        snoozes=row["snoozes"],
        company=None if row["finished_at_ms"] else row["company"],
    )


def event(row: Row, position: str) -> Event:
    """Return an event as readers of the log see it."""
    return Event(
        position=position,
        at_ms=row["at_ms"],
        queue=row["queue"],
        id=row["id"],
        run=row["run"],
        attempt=row["attempt"],
        transition=row["transition"],
        state=_STATES[row["state"]] if row["state"] else None,
        cause=row["cause"],
        task=row["task"],
        worker=row["worker"],
        key=row["key"],
        priority=row["priority"],
        run_at_ms=row["run_at_ms"],
        counters=_counters(row, row["attempt"]),
        wait_ms=row["wait_ms"],
        run_ms=row["run_ms"],
        error_type=row["error_type"],
        error_signature=row["error_signature"],
        progress=row["progress"],
        message=row["message"],
        payload=row["payload"],
        envelope=readable(row["envelope"]) if row["envelope"] else EMPTY,
        actor=row["actor"],
    )


def _counters(row: Row, attempts: int) -> Counters:
    if 0 <= attempts < len(UNTROUBLED) and not (row["failures"] or row["stalls"] or row["timeouts"] or row["releases"]):
        return UNTROUBLED[attempts]
    return Counters(
        attempts=attempts,
        failures=row["failures"],
        stalls=row["stalls"],
        timeouts=row["timeouts"],
        releases=row["releases"],
    )


def claimed(
    lease: Lease,
    now: int,
    fields: Sequence[Any],
    chain: Sequence[Any],
    timeout_ms: int | None = None,
    company: int | None = None,
    snoozes: int = 0,
    spared: int = 0,
) -> Claimed:
    """Return a job that was given to a worker; `chain` is (queue, id, run of the first job, position)."""
    (task, priority, key, run_at, enqueued_at, failures, stalls, timeouts, releases, overrides, envelope, error,
     checkpoint, payload) = fields  # fmt: skip
    chain_queue, chain_id, chain_run, position = chain
    if lease.attempt == 1 and not (failures or stalls or timeouts or releases):
        counters = FRESH
    else:
        counters = Counters(
            attempts=lease.attempt, failures=failures, stalls=stalls, timeouts=timeouts, releases=releases
        )
    return Claimed(
        lease=lease,
        task=task,
        payload=payload,
        priority=priority,
        key=key,
        run_at_ms=run_at,
        enqueued_at_ms=enqueued_at,
        claimed_at_ms=now,
        counters=counters,
        envelope=opened(envelope) if envelope else EMPTY,
        overrides=_overrides(overrides) if overrides else None,
        last_error=_error(error) if error else None,
        checkpoint=checkpoint,
        timeout_ms=timeout_ms,
        chain=ChainRef(chain_queue, chain_id, chain_run) if chain_id is not None else None,
        position=position,
        snoozes=snoozes,
        spared=spared,
        company=company,
    )


def reaped(lease: Lease, task: str | None, state: str, counts: Sequence[int], ran_ms: int) -> ReapedJob:
    """Return a job of a vanished worker; `counts` are its failures, stalls, timeouts and releases before that."""
    failures, stalls, timeouts, releases = counts
    counters = Counters(
        attempts=lease.attempt, failures=failures, stalls=stalls + (state != State.CANCELLED), timeouts=timeouts,
        releases=releases,
    )  # fmt: skip
    return ReapedJob(lease, task, State(state), counters, max(0, ran_ms))


def stored_error(blob: bytes) -> ErrorRecord:
    """Return the error that a job was left with; one that cannot be read says so."""
    try:
        return _error(blob)
    except msgspec.MsgspecError as error:
        return corrupt(error)


def corrupt(error: msgspec.MsgspecError) -> ErrorRecord:
    """Return what a job whose record cannot be decoded fails with."""
    return ErrorRecord(type="CorruptRecord", kind="corrupt", message=str(error))


def known_session(id: str, info: bytes | str) -> Session:
    """Return who a session is, as far as it can be read."""
    try:
        return msgspec.json.decode(info, type=Session)
    except msgspec.MsgspecError:
        return Session(id=id, name=f"{id} (its record cannot be read)", host="?", pid=0, queues=())


def known_command(word: str | None) -> SessionCommand | None:
    """Return what a worker is told; nothing where it is something that this Holdfast does not know."""
    return COMMANDS.get(word or "")


def readable_settings(queue: str, *layers: bytes | str) -> QueueSettings:
    """Return a queue's settings, each layer above the one before; without those layers that cannot be read."""
    known: dict[str, object] = {}
    for layer in layers:
        try:
            given = {**known, **msgspec.json.decode(layer, type=dict[str, object])}
            msgspec.convert(given, QueueSettings)
            known = given
        except (msgspec.MsgspecError, TypeError) as error:
            log.warning(
                "setting_unread: settings of queue %s cannot be read and do not count; set them again: %s", queue, error
            )
    return msgspec.convert(known, QueueSettings)


def readable_policy(queue: str, task: str, declared: bytes | str) -> Policy:
    """Return what was declared of a task; the library's defaults when that cannot be read."""
    if not isinstance(task, str):
        raise TypeError(f"a task of queue {queue} has a name that is {type(task)}")
    try:
        return msgspec.json.decode(declared, type=Policy)
    except (msgspec.MsgspecError, TypeError) as error:
        log.warning(
            "setting_unread: the policy of %s in queue %s cannot be read and does not count: %s", task, queue, error
        )
        return Policy()


def readable_adjustment(queue: str, task: str, policy: Policy, operator: bytes | str) -> Policy:
    """Return a policy with what operators set above it, if that can be read."""
    try:
        return adjusted(policy, msgspec.json.decode(operator, type=dict[str, object]))
    except (msgspec.MsgspecError, TypeError, ConfigError) as error:
        log.warning(
            "setting_unread: what was set of %s in queue %s cannot be read and does not count: %s", task, queue, error
        )
        return policy


def set_aside(corrupt: Sequence[Corrupt]) -> Finding:
    """Return what `doctor` says of records that were set aside because they could not be read, the newest first."""
    if not corrupt:
        return Finding("records", "ok", "none was set aside")
    shown = "; ".join(f"{each.kind} {each.queue}/{each.id} ({each.detail})" for each in corrupt[:SHOWN])
    more = f"; and {len(corrupt) - SHOWN} more" if len(corrupt) > SHOWN else ""
    advice = "find out who else wrote to the store; jobs among them are dead letters: requeue or delete them"
    return Finding("records", "warning", f"{len(corrupt)} could not be read and were set aside: {shown}{more}", advice)


class Miscount(NamedTuple):
    """A count of a queue that is not what is there."""

    queue: str
    state: str
    counted: int
    there: int


def miscounted(wrong: Sequence[Miscount]) -> Finding:
    """Return what `doctor` says of counts that it found wrong, and made right."""
    if not wrong:
        return Finding("counts", "ok", "they are what is there")
    shown = "; ".join(
        f"{each.queue}: {each.counted} {each.state} counted, {each.there} there" for each in wrong[:SHOWN]
    )
    more = f"; and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
    advice = "find out who else wrote to the store: jobs are changed and removed by Holdfast alone"
    return Finding("counts", "warning", f"{len(wrong)} were wrong, and are right now: {shown}{more}", advice)


def suspected(count: int, queue: str, id: str, company: int) -> Finding:
    """Return what `doctor` says of jobs that stalled in company and wait for smaller company; one is an example."""
    if not count:
        return Finding("suspects", "ok", "none waits")
    beside = "alone" if company <= 1 else f"beside {company - 1} others at most"
    told = f"{count} stalled beside others and wait to be tried again, such as {queue}/{id}, {beside}"
    advice = "their workers vanished: look at their logs; see the page on workers, leases and heartbeats"
    return Finding("suspects", "warning", told, advice)


def outcome(row: Row) -> State:
    """Return where the chain stands that a job began: `active` while another job of it is on; else its own state."""
    if row["chain_state"] is None:
        return State(row["state"])
    return State.ACTIVE if row["chain_state"] == OPEN else State(row["chain_state"])


def decoded(blob: bytes | str | None, type: type[T]) -> T | None:
    """Return what was stored as JSON, or `None`."""
    if blob is None:
        return None
    try:
        return msgspec.json.decode(blob, type=type)
    except (msgspec.MsgspecError, TypeError):
        return None  # a damaged field must not hide the job from those who look for it


def before(cursor: str | None) -> int:
    """Return the run below which the next page of jobs begins."""
    if cursor is None:
        return LAST
    if not re.fullmatch("[0-9]{1,18}", cursor):
        raise ConfigError(f"cursor {cursor!r} is not one that a list of jobs gave")
    return int(cursor)
