"""What workers call: sessions, turns, heartbeats, and the upkeep of a queue."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from ...core.bound import EXPIRED_AT_ONCE, FEW_QUEUES, REAPED_AT_ONCE
from ...core.job import ErrorRecord, Progress
from ...core.policy import Cause
from ...core.transition import Reply
from ..contract import (
    Claimed,
    Corrupt,
    Expired,
    Extended,
    Failed,
    Lease,
    QueueChores,
    Reaped,
    Session,
    Settlement,
    Turn,
)
from ..rows import known_command
from .call import arguments, replies
from .call.array import blob, texts
from .connection.caller import PostgresCaller, Rows
from .connection.connect import Connection
from .doctor import recount
from .listen import PostgresListen
from .many_queues import ManyQueues, TurnRequest, joined

_json = msgspec.json.Encoder().encode


class PostgresWork:
    """Working, of the contract, but for `declare`."""

    def __init__(self, caller: PostgresCaller, listen: PostgresListen) -> None:
        self._caller = caller
        self._listen = listen
        self._replies = replies.TurnReader()
        self._many: dict[str, ManyQueues] = {}
        """By session, if it has many queues."""

    async def register(self, session: Session) -> None:
        """Let a session claim."""
        await self._caller.value(
            "register", session=session.id, queues=texts(session.queues), info=blob(_json(session)),
            lease=session.lease_ms, address=session.address,
        )  # fmt: skip

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
        """Settle everything, then claim up to `room` jobs: in one step, or where queues are many, in a few."""
        self._listen.recheck.stop(session.id)
        wanted = TurnRequest(queues, room, park, held, only_suspects)
        if len(session.queues) <= FEW_QUEUES:
            return await self._turn(session, settlements, wanted, queues)
        return await self._in_parts(session, settlements, wanted)

    async def _in_parts(self, session: Session, settlements: Sequence[Settlement], wanted: TurnRequest) -> Turn:
        """Ask queue after queue, some in each call, until there is no room."""
        many, asked, turns = self._many_queues(session), wanted.queues, list[Turn]()
        for part, is_last in many.parts(asked):
            tells = many.wants_settings()
            here = replace(wanted, queues=part, park=wanted.park and is_last)
            turn = await self._turn(session, settlements, here, asked, tells)
            if turn.evicted:
                return turn
            if tells:
                many.told(turn.settings)
            many.answered(part, turn, wanted.room)
            turns.append(turn)
            settlements, wanted = (), wanted.after(turn)
            if wanted.room <= 0:
                break
        return joined(turns, many.settings)

    def _many_queues(self, session: Session) -> ManyQueues:
        found = self._many.get(session.id)
        if found is None or found.names is not session.queues:
            found = self._many[session.id] = ManyQueues(session)
        return found

    async def _turn(
        self,
        session: Session,
        settlements: Sequence[Settlement],
        wanted: TurnRequest,
        asked: Sequence[str],
        tells: bool = True,
    ) -> Turn:
        """Make one call. If it parks, look again in all queues that were `asked` by then."""
        listener = self._listen.find(session.address) if wanted.park else None
        values = arguments.turn(
            self._caller.now(), session, settlements, wanted.queues, room=wanted.room, park=wanted.park,
            held=wanted.held, only_suspects=wanted.only_suspects, tells=tells,
        )  # fmt: skip
        statement, look_again = self._caller.statement("take_turn"), self._caller.statement("claimable")
        missed: Rows = []

        async def work(connection: Connection, again: bool) -> Rows:
            async with connection.cursor(binary=True) as cursor:
                await cursor.execute(statement, {**values, "lock_all": again})
                rows = await cursor.fetchall()
                if listener is not None and replies.claimed_count(rows) < wanted.room:
                    await cursor.execute(look_again, {"session": session.id, "queues": texts(asked), "before": None})
                    missed[:] = await cursor.fetchall()
                return rows

        rows = await self._caller.run(work, repeatable=False, patient=False)
        pool = self._caller.pool
        turn, broken = self._replies.turn(rows, len(settlements), session.id, pool.made if pool else 0)
        if broken:
            await self._fail_corrupt(session, broken)
        if turn.evicted:
            self._many.pop(session.id, None)
        elif listener is not None and missed:
            ((found, before),) = missed
            listener.wake() if found else self._listen.recheck.start(session.id, asked, listener, before)
        return turn

    async def _fail_corrupt(self, session: Session, broken: Sequence[tuple[Lease, ErrorRecord]]) -> None:
        failed = [Failed(lease, error, Cause.CORRUPT) for lease, error in broken]
        await self.settle_and_claim(session, failed, (), 0)

    def given(self, session: Session, room: int) -> list[Claimed]:
        """Return nothing: here a session that is woken asks for itself."""
        return []

    async def extend(self, session: Session, memory_bytes: int | None = None) -> Extended:
        """Move the session's expiry, and note its memory."""
        (row,) = await self._caller.call(
            "extend", session=session.id, lease=session.lease_ms, memory=memory_bytes, patient=False
        )
        if row["evicted"]:
            return Extended(evicted=True)
        found = msgspec.convert(row["aborts"] or [], list[replies.AbortReply])
        return Extended(late=row["late"], aborts=replies.aborts(found), command=known_command(row["command"]))

    async def progress(
        self, session: Session, lease: Lease, progress: Progress | None, checkpoint: bytes | None
    ) -> Reply:
        """Store progress, checkpoint, or both with the run."""
        message = progress.message if progress else None
        reply = await self._caller.value(
            "progress", session=session.id, queue=lease.queue, id=lease.id, run=lease.run, attempt=lease.attempt,
            progress=blob(_json(progress)) if progress else None, checkpoint=blob(checkpoint),
            fraction=progress.fraction if progress else None,
            message=None if message is None else message.replace("\0", "\ufffd"),
        )  # fmt: skip
        return Reply(reply)

    async def held(self, session: Session) -> list[Claimed]:
        """Return what the store thinks this session is working on."""
        rows = await self._caller.rows(
            self._caller.statement("held"), {"clock": self._caller.now(), "session": session.id}, patient=False
        )
        found, broken = replies.held_jobs(rows)
        if broken:
            await self._fail_corrupt(session, broken)
        return found

    async def leave(self, session: Session) -> None:
        """End a session, which must hold nothing any more."""
        await self._caller.value("leave", session=session.id)
        self._replies.forget(session.id)
        self._many.pop(session.id, None)

    async def reap(self, queue: str, limit: int = REAPED_AT_ONCE, but: str | None = None) -> Reaped:
        """Reap the jobs of expired sessions, at most `limit` of them."""
        (row,) = await self._caller.call("reap", queue=queue, limit=limit, but=but or "")
        told = [Corrupt(**each) for each in await self._caller.call("report_corrupt")]
        if told:  # it is unknown in which state such a record was counted
            await recount(self._caller)
        return Reaped(
            sessions=tuple(row["dead"]), returned=row["returned"], failed=row["failed"], shifted_ms=row["shifted"],
            more=row["more"], next_ms=row["next_lease"], jobs=replies.reaped_jobs(queue, row["jobs"]),
            corrupt=tuple(told),
        )  # fmt: skip

    async def chores(self, queues: Sequence[str], but: str | None = None) -> QueueChores:
        """Look what upkeep has to do in these queues."""
        (row,) = await self._caller.call("chores", queues=texts(queues), but=but or "")
        return QueueChores(
            reap=tuple(row["reap"]), expire=tuple(row["expire"]), next_ms=row["next_lease"], policies=row["policies"]
        )

    async def expire(self, queue: str, limit: int = EXPIRED_AT_ONCE) -> Expired:
        """Remove finished runs past their retention, and events and answers past theirs, about `limit` of each."""
        (row,) = await self._caller.call("expire", queue=queue, limit=limit, history=self._caller.address.history)
        return Expired(runs=row["runs"], failed_by_age=row["by_age"], failed_by_count=row["by_count"], more=row["more"])
