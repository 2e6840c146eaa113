"""Entry points that workers call: sessions, turns and upkeep."""

from __future__ import annotations

from typing import NamedTuple

from .entry import DRAINS, READS, Flat, ServerCall
from .produce import RunArguments


class RegisterCall(ServerCall[bytes]):
    """Note a worker's session in one of its queues."""

    flag = DRAINS
    shift: int
    queue: str
    session: str
    lease_ms: int
    info: bytes
    address: str | None


class HearReply(NamedTuple):
    """The library's version; by how much expiries have moved in all; and by how much with this call."""

    version: int
    shift: int
    gap: int


class HearCall(ServerCall[HearReply]):
    """Note that a session was heard, for the whole namespace. A reaper has no lease."""

    reply, flag = HearReply, DRAINS
    lease_ms: int | None


class QueueArguments(NamedTuple):
    """For each queue: its rank in the order of claiming (0: none, -1: only look), and how many attempts ended there."""

    rank: int
    settlements: int


class SettlementArguments(NamedTuple):
    """How an attempt ended: run, attempt and id in one text, a result or error, and the rest, empty for most."""

    token: bytes
    body: bytes
    more: bytes


class NearArguments(NamedTuple):
    """Another queue in which chains of these continue."""

    key: str
    name: str


class ClaimedFields(NamedTuple):
    """A job that was claimed: its record, as it was before a first attempt, and its time-out (-1: none)."""

    run: bytes
    record: bytes
    timeout_ms: int


class QueueTurn(NamedTuple):
    """What a turn answers for one queue."""

    words: list[bytes]
    claimed: Flat
    next_at: int
    more: int | None
    suspects: int | None
    settings: bytes
    aborts: Flat
    posted: Flat
    waiting: int | None


class AbortFields(NamedTuple):
    """A handler that must stop, and why."""

    id: bytes
    run: int
    attempt: int
    reason: bytes


class RedisTurnReply(NamedTuple):
    """`evicted`, or `alive` with what each queue answers. `given` is a hand-over that the worker has not heard of."""

    status: bytes
    now: int
    late: int | None
    queues: list[Flat] | None
    posted: Flat | None
    given: Flat | None


class PostedFields(NamedTuple):
    """Another queue with messages for others, and the first of these."""

    queue: bytes
    messages: Flat


class GivenFields(NamedTuple):
    """A hand-over: its number, and what was claimed."""

    number: int
    claimed: Flat


class TurnCall(ServerCall[RedisTurnReply]):
    """Settle attempts that ended, in all queues of a session, and claim jobs.

    `parks` is empty, "park", or "idle" for a worker that jobs may be handed over to. A session that visits some of its
    many queues parks in those that are "dry", or in "none". `received` is the number of the latest hand-over that it
    knows of.
    """

    reply, flag, takes = RedisTurnReply, DRAINS, (QueueArguments, SettlementArguments, NearArguments)
    gives = (QueueTurn, ClaimedFields, AbortFields, PostedFields, GivenFields)
    shift: int
    session: str
    lease_ms: int
    room: int
    held: int
    only_suspects: bool
    parks: str
    seed: int
    received: int | None


class ExtendReply(NamedTuple):
    """`evicted`, or `alive` with the aborts of each queue."""

    status: bytes
    late: int | None
    aborts: list[Flat] | None
    command: bytes | None


class ExtendCall(ServerCall[ExtendReply]):
    """Extend a session's lease in all its queues."""

    reply, flag, gives = ExtendReply, DRAINS, (AbortFields,)
    shift: int
    session: str
    lease_ms: int
    memory: int | None


class CommandCall(ServerCall[bytes]):
    """Tell a session something, in one of its queues; `action` is what the log says of it, as JSON."""

    flag = DRAINS
    session: str
    command: str
    action: str | None


class ProgressCall(ServerCall[bytes]):
    """Store what a handler reports. A checkpoint stands behind a mark: it may be empty."""

    flag = DRAINS
    session: str
    run: int
    attempt: int
    id: bytes
    progress: bytes | None
    checkpoint: bytes | None


class HeldReply(NamedTuple):
    """`evicted`, or `alive` with what the session holds."""

    status: bytes
    claimed: Flat | None


class HeldCall(ServerCall[HeldReply]):
    """Return what a session holds in one queue."""

    reply, flag, gives = HeldReply, DRAINS, (ClaimedFields,)
    session: str


class LeaveCall(ServerCall[bytes]):
    """End a session; what it still holds counts as stalled at the next reap."""

    flag = DRAINS
    session: str


class ReapedFields(NamedTuple):
    """A job that was reaped, with its counters from before."""

    id: bytes
    run: int
    attempt: int
    task: bytes | None
    state: bytes
    counters: list[int]
    ran_ms: int


class ReapReply(NamedTuple):
    """How many jobs wait again and failed; which sessions died; what could not be read; when to reap again."""

    returned: int
    failed: int
    more: int | None
    posted: int | None
    sessions: list[bytes]
    corrupt: list[bytes]
    next_ms: int | None
    jobs: list[Flat]


class ReapCall(ServerCall[ReapReply]):
    """Reap the jobs of expired sessions, but not of the one that asks, at most `limit` of them."""

    reply, flag, gives = ReapReply, DRAINS, (ReapedFields,)
    shift: int
    queue: str
    limit: int
    asking: str


class ExpireReply(NamedTuple):
    """How many runs are gone, how many of them had failed, and whether there are more to go."""

    runs: int
    posted: int | None
    failed_by_age: int
    failed_by_count: int
    more: int | None


class ExpireCall(ServerCall[ExpireReply]):
    """Remove what the queue's retention lets go."""

    reply, flag = ExpireReply, DRAINS
    queue: str
    limit: int
    history: int


class ChoresReply(NamedTuple):
    """Which of the queues, from 1 on, want `reap` and `expire`, when the next may, and the revisions of all."""

    reap: list[int]
    expire: list[int]
    next_ms: int | None
    revisions: bytes


class ChoresCall(ServerCall[ChoresReply]):
    """Look what upkeep has to do in these queues, but for the session that asks."""

    reply, flag = ChoresReply, READS
    shift: int
    asking: str
    history: int


class SetAsideCall(ServerCall[bytes]):
    """Make dead letters of runs whose records a client could not read."""

    flag, takes = DRAINS, (RunArguments,)
    queue: str


class MistypedReply(NamedTuple):
    """Where to read on ("0": at the end), how many keys were of another type, and the latest run that was seen."""

    cursor: bytes
    keys: int
    latest: int


class MistypedCall(ServerCall[MistypedReply]):
    """Set keys of another type aside, and rebuild what the records can tell, one page of them in each call."""

    reply, flag = MistypedReply, DRAINS
    queue: str
    cursor: bytes
    latest: int


ENTRIES = (
    RegisterCall, HearCall, TurnCall, ExtendCall, CommandCall, ProgressCall, HeldCall, LeaveCall, ReapCall, ExpireCall,
    ChoresCall, SetAsideCall, MistypedCall,
)  # fmt: skip
