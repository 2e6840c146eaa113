"""Working: sessions, turns, heartbeats and upkeep."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from ...core.bound import MOST_CALL_BYTES
from ...core.job import Progress
from ...core.transition import Reply
from ..batching import together
from ..contract import (
    Claimed,
    Expired,
    Extended,
    Lease,
    QueueChores,
    Reaped,
    ReapedJob,
    Session,
    Settled,
    Settlement,
    Turn,
)
from ..rows import known_command, reaped
from .arguments.settlement import aborts_of, size_of
from .arguments.work import (
    ChoresCall,
    ExpireCall,
    ExtendCall,
    HeldCall,
    LeaveCall,
    ProgressCall,
    ReapCall,
    ReapedFields,
    RegisterCall,
)
from .caller import RedisCaller
from .doctor import corrupt_of
from .handover import HandOver
from .keys import short
from .listen import RedisListener
from .outage import Outages
from .outbox import RedisOutbox
from .record.view import claimed_all
from .turn import PartialTurn, RedisTurns
from .visits import AT_ONCE, FEW, Visits

_json = msgspec.json.encode
HEARD_WITHIN_MS = 50
"""A turn need not say that its session is alive when a call said so just before."""


class RedisWork:
    """What workers call."""

    def __init__(self, caller: RedisCaller, listener: RedisListener, outbox: RedisOutbox) -> None:
        self._caller = caller
        self._listener = listener
        self._outbox = outbox
        self._outages = Outages(caller)
        self._turns = RedisTurns(caller, self._outages)
        self.handed_over: dict[str, HandOver] = {}
        """By session: the jobs that came with wake-ups."""
        self._visits: dict[str, Visits | None] = {}
        """By session: what it knows of its queues, if they are many."""
        self._connections: dict[str, int] = {}
        """By session: how often anything had been connected when it was last sure of what it holds."""

    async def register(self, session: Session) -> None:
        """Note a worker's session in all its queues."""
        await self._caller.know(*session.queues)
        await self._outages.hear(session.lease_ms)
        subscription = self._listener.find(session.address)
        if subscription is not None and len(session.queues) == 1:
            handed = HandOver(session.queues[0], subscription.on_wake)
            subscription.handed_over = self.handed_over[session.id] = handed
        ends_hand_over = len(session.queues) > 1 and self.handed_over.pop(session.id, None) is not None
        if subscription is not None and ends_hand_over:
            subscription.handed_over = None
        many = len(session.queues) > FEW
        visits = self._visits[session.id] = Visits(session, self._caller.clock) if many and subscription else None
        if subscription is not None:
            subscription.visits = visits
        await self._caller.at_once([self._register(session, queue) for queue in session.queues])
        self._outages.note_lease(session.lease_ms)
        # With more queues nothing is handed over any more; what was until its next turn, it has to ask for.
        self._connections[session.id] = -1 if ends_hand_over else self._caller.server.connections

    async def _register(self, session: Session, queue: str) -> None:
        info = session
        if len(session.queues) > FEW and queue != session.queues[0]:  # a thousand would know of each other thousand
            info = msgspec.structs.replace(session, queues=(queue,), tasks=None)
        call = RegisterCall(
            shift=self._outages.shift,
            queue=queue,
            session=session.id,
            lease_ms=session.lease_ms,
            info=_json(info),
            address=session.address,
        )
        await self._caller.call(queue, call)

    async def settle_and_claim(
        self,
        session: Session,
        settlements: Sequence[Settlement],
        queues: Sequence[str],
        room: int,
        park: bool = False,
        idle: bool = False,
        held: int = 0,
        only_suspects: bool = False,
    ) -> Turn:
        """Settle attempts that ended, and claim jobs."""
        settled: list[Settled] = []
        while (count := together(settlements, size_of, MOST_CALL_BYTES)) < len(settlements):
            turn = await self._turn(session, settlements[:count], (), 0)
            if turn.evicted:
                return turn
            settled += turn.settled
            settlements = settlements[count:]
        turn = await self._turn(session, settlements, queues, room, park, idle, held, only_suspects)
        return msgspec.structs.replace(turn, settled=settled + turn.settled) if settled else turn

    async def _turn(
        self,
        session: Session,
        settlements: Sequence[Settlement],
        queues: Sequence[str],
        room: int,
        park: bool = False,
        idle: bool = False,
        held: int = 0,
        only_suspects: bool = False,
    ) -> Turn:
        handed = self.handed_over.get(session.id)
        before = handed.taken if handed is not None else 0
        given = handed.take(room if queues else 0) if handed is not None else []
        if handed is not None and given and not settlements:
            return handed.turn(given)
        if not self._outages.was_heard_lately(HEARD_WITHIN_MS):
            await self._outages.hear(session.lease_ms)
        back = handed.give_back() if handed is not None else []
        visits = self._visits.get(session.id)
        served = frozenset(session.queues) if visits is None else visits.queues  # a session may have a thousand
        wanted = [queue for queue in queues if queue in served]
        if handed is not None:
            held += handed.taken - before
        partial = PartialTurn(session, [*settlements, *back], wanted, room - len(given), held, only_suspects)
        if visits is not None and visits.connections != self._caller.server.connections:
            visits.connections = self._caller.server.connections
            visits.forget()  # a server that was not there may have forgotten who is parked
        partial.visits = visits
        await self._turns.make(partial, park, handed, idle)
        if partial.evicted:
            self._forget(session)
            return Turn(evicted=True, now_ms=partial.now)
        partial.unsure = self._is_unsure(session)
        for queue, messages in partial.posted:
            await self._outbox.try_to_deliver(queue, messages=messages)
        if handed is None:
            return partial.turn([], len(settlements))
        turn = partial.turn(given + handed.take(partial.room if queues else 0), len(settlements))
        handed.after(turn)
        return turn

    def _forget(self, session: Session) -> None:
        """Forget a session that is over."""
        self.handed_over.pop(session.id, None)
        self._connections.pop(session.id, None)
        self._visits.pop(session.id, None)

    def _is_unsure(self, session: Session) -> bool:
        """True once after anything was connected anew: that server may have forgotten what this session settled."""
        count = self._caller.server.connections
        known = self._connections.get(session.id, count)
        self._connections[session.id] = count
        return known != count

    def given(self, session: Session, room: int) -> list[Claimed]:
        """Return the jobs that came with a wake-up, all of them, if there is room."""
        handed = self.handed_over.get(session.id)
        return [] if handed is None or not handed.waiting else handed.take(room)

    async def extend(self, session: Session, memory_bytes: int | None) -> Extended:
        """Extend the session's lease and note its memory; return whose handlers must stop."""
        await self._outages.hear(session.lease_ms)
        cluster = self._caller.server.address.kind == "cluster"
        groups = [[queue] for queue in session.queues] if cluster else [list(session.queues)]
        found = await asyncio.gather(
            *(self._extend(session, group, memory_bytes) for group in groups), return_exceptions=True
        )
        if any(isinstance(each, Extended) and each.evicted for each in found):
            return Extended(evicted=True)
        for each in found:  # a node that is away costs the session nothing at the others
            if isinstance(each, BaseException):
                raise each
        parts = [each for each in found if isinstance(each, Extended)]
        return Extended(
            late=any(part.late for part in parts),
            aborts=[one for part in parts for one in part.aborts],
            command=max((part.command for part in parts if part.command is not None), default=None),
        )

    async def _extend(self, session: Session, queues: Sequence[str], memory_bytes: int | None) -> Extended:
        keys = [self._caller.keys.declared(queue) for queue in queues]
        call = ExtendCall(shift=self._outages.shift, session=session.id, lease_ms=session.lease_ms, memory=memory_bytes)
        reply = await self._caller.call_at(keys, call)
        if reply.aborts is None:
            return Extended(evicted=True)
        found = zip(queues, reply.aborts, strict=True)
        return Extended(
            late=bool(reply.late),
            aborts=[each for queue, flat in found for each in aborts_of(queue, flat)],
            command=known_command((reply.command or b"").decode()),
        )

    async def progress(
        self, session: Session, lease: Lease, progress: Progress | None, checkpoint: bytes | None
    ) -> Reply:
        """Store what a handler reports."""
        call = ProgressCall(
            session=session.id,
            run=lease.run,
            attempt=lease.attempt,
            id=short(lease.id),
            progress=None if progress is None else _json(progress),
            checkpoint=None if checkpoint is None else b"=" + checkpoint,
        )
        return await self._caller.word(lease.queue, call)

    async def held(self, session: Session) -> list[Claimed]:
        """Return what the store thinks that the session is working on."""
        found: list[Claimed] = []
        call = HeldCall(session=session.id)
        replies = await self._caller.at_once([self._caller.call(queue, call) for queue in session.queues])
        for queue, reply in zip(session.queues, replies, strict=True):
            if reply.claimed is None:
                return []
            jobs, broken = claimed_all(queue, reply.claimed, 0)
            found += jobs
            if broken:
                await self._caller.set_aside(queue, broken)
        if session.id in self.handed_over:
            self.handed_over[session.id].leave_out(found)
        return found

    async def leave(self, session: Session) -> None:
        """End a session."""
        handed = self.handed_over.get(session.id)
        while handed is not None and session.id in self.handed_over:  # what was given and not taken up goes back
            await self.settle_and_claim(session, (), (), 0)
            if not handed.waiting:
                self.handed_over.pop(session.id, None)
        call = LeaveCall(session=session.id)
        await self._caller.at_once([self._caller.call(queue, call) for queue in session.queues])
        self._forget(session)

    async def reap(self, queue: str, limit: int, but: str | None) -> Reaped:
        """Reap the jobs of expired sessions, but of the one that asks, at most `limit` of them."""
        await self._caller.know(queue)
        gap = await self._outages.hear()
        if self._caller.server.address.kind == "cluster" and await self._outages.spares(queue):
            return Reaped(shifted_ms=gap)
        call = ReapCall(shift=self._outages.shift, queue=queue, limit=limit, asking=but or "")
        found = await self._caller.call(queue, call)
        if found.posted:
            await self._outbox.deliver(queue)
        return Reaped(
            sessions=tuple(sorted(id.decode() for id in found.sessions)),
            jobs=tuple(_reaped(queue, ReapedFields._make(job)) for job in found.jobs),
            returned=found.returned,
            failed=found.failed,
            shifted_ms=gap,
            more=bool(found.more),
            next_ms=found.next_ms,
            corrupt=tuple(corrupt_of(queue, text) for text in found.corrupt),
        )

    async def chores(self, queues: Sequence[str], but: str | None) -> QueueChores:
        """Look what upkeep has to do in these queues, some of them in each call, and in a cluster one."""
        await self._outages.hear()
        call = ChoresCall(
            shift=self._outages.shift, asking=but or "", history=self._caller.server.address.history
        )  # fmt: skip
        width = 1 if self._caller.server.address.kind == "cluster" else AT_ONCE
        parts = [queues[first : first + width] for first in range(0, len(queues), width)]
        keys = [[self._caller.keys.declared(queue) for queue in part] for part in parts]
        found = await self._caller.at_once([self._caller.call_at(each, call) for each in keys])
        named = list(zip(parts, found, strict=True))
        return QueueChores(
            reap=tuple(part[number - 1] for part, reply in named for number in reply.reap),
            expire=tuple(part[number - 1] for part, reply in named for number in reply.expire),
            next_ms=min((reply.next_ms for reply in found if reply.next_ms is not None), default=None),
            policies=",".join(reply.revisions.decode() for reply in found),
        )

    async def expire(self, queue: str, limit: int) -> Expired:
        """Remove what the queue's retention lets go, at most `limit` runs."""
        self._caller.known.discard(queue)  # the list of queues may have been lost, and is right again after this
        await self._caller.know(queue)
        call = ExpireCall(queue=queue, limit=limit, history=self._caller.server.address.history)
        found = await self._caller.call(queue, call)
        if found.posted:
            await self._outbox.deliver(queue)
        return Expired(
            runs=found.runs,
            failed_by_age=found.failed_by_age,
            failed_by_count=found.failed_by_count,
            more=bool(found.more),
        )


def _reaped(queue: str, job: ReapedFields) -> ReapedJob:
    lease = Lease(queue, job.id.decode(), job.run, job.attempt)
    return reaped(lease, None if job.task is None else job.task.decode(), job.state.decode(), job.counters, job.ran_ms)
