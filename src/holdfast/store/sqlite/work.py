"""What workers call: sessions, turns, heartbeats, progress, and the upkeep that any worker may do."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from ...core.bound import EXPIRED_AT_ONCE, REAPED_AT_ONCE
from ...core.job import Progress
from ...core.policy import Cause
from ...core.transition import Reply
from ..contract import Claimed, Expired, Extended, Lease, QueueChores, Reaped, Session, Settlement, Turn
from ..rows import corrupt
from .chores import chores
from .connection.at_once import SMALL
from .database import Database
from .repair.note import note_job
from .transition.claim.claim import claimed, read_rows
from .transition.expire import expire
from .transition.fail import fail
from .transition.fast.queues import KnownSettings
from .transition.reap import reap
from .transition.session import extend, is_alive, leave, register
from .transition.settle import Wanted, progress, take_turn
from .tx import Tx


class SqliteWork:
    """Register sessions, settle and claim for them, and look after what they leave behind."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._busy: set[str] = set()
        """Sessions whose last claim was a large one."""
        self._known = KnownSettings()

    async def register(self, session: Session) -> None:
        """Register a session in each of its queues."""
        await self._database.write(register, session)

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
        """Settle what is finished, and claim what there is room for.

        An idle worker has much room and finds little: that is done at once. One that finds much gets it in batches.
        """
        small = len(settlements) <= SMALL and session.id not in self._busy
        most = min(room, SMALL) if small else room
        wanted = Wanted(queues, most, park, held, only_suspects)
        turn = await self._turn(session, settlements, wanted, small)
        room = min([room, *(job.company - held for job in turn.claimed if job.company is not None)])
        if len(turn.claimed) == most < room:
            rest = await self._turn(session, (), replace(wanted, room=room - most, held=held + most), False)
            if not rest.evicted:
                turn = replace(rest, settled=turn.settled, claimed=turn.claimed + rest.claimed)
        if len(turn.claimed) >= SMALL:
            self._busy.add(session.id)
        else:
            self._busy.discard(session.id)
        return turn

    async def _turn(self, session: Session, settlements: Sequence[Settlement], wanted: Wanted, small: bool) -> Turn:
        values = (session, list(settlements), wanted, self._known)
        return await self._database.write(take_turn, *values, small=small, ahead=True)

    def given(self, session: Session, room: int) -> list[Claimed]:
        """Return nothing: a session that is woken claims for itself."""
        return []

    async def extend(self, session: Session, memory_bytes: int | None = None) -> Extended:
        """Move the session's expiry by another lease, and note its memory."""
        return await self._database.write(extend, session, memory_bytes)

    async def progress(
        self, session: Session, lease: Lease, report: Progress | None, checkpoint: bytes | None
    ) -> Reply:
        """Store how far a run is, and what its next attempt should know."""
        return await self._database.write(progress, session, lease, report, checkpoint, small=True)

    async def held(self, session: Session) -> list[Claimed]:
        """Return the jobs that the store thinks a session is working on."""
        return await self._database.write(_held, session)

    async def leave(self, session: Session) -> None:
        """End a session."""
        self._busy.discard(session.id)
        await self._database.write(leave, session)

    async def reap(self, queue: str, limit: int = REAPED_AT_ONCE, but: str | None = None) -> Reaped:
        """Reap the jobs of expired sessions, at most `limit` of them."""
        return await self._database.write(reap, queue, limit, but or "")

    async def chores(self, queues: Sequence[str], but: str | None = None) -> QueueChores:
        """Look what upkeep has to do in these queues; nobody who writes waits for it."""
        return await self._database.read(chores, queues, but or "")

    async def expire(self, queue: str, limit: int = EXPIRED_AT_ONCE) -> Expired:
        """Remove finished runs past their retention, old events and old answers, about `limit` of each."""
        history = self._database.address.history
        return await self._database.write(expire, queue, limit, history)


def _held(tx: Tx, session: Session) -> list[Claimed]:
    if not is_alive(tx, session):
        return []
    jobs = []
    queues = dict(tx.run("session", "held", session=session.id).fetchall())
    for row in read_rows(tx, list(queues)):
        queue = queues[row.run]
        try:
            jobs.append(claimed(tx, queue, row, tx.queue(queue).policies)[0])
        except msgspec.MsgspecError as error:
            fail(tx, tx.job(row.run) or {}, corrupt(error), Cause.CORRUPT)
            note_job(tx, queue, row.id, row.run, corrupt(error))
    return jobs
