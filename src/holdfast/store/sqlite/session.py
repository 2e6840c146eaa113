"""register, extend, reap: who works here, and what becomes of the jobs of those who vanished."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from ...core.job import ErrorRecord
from ...core.policy import Cause
from ...core.state import PENDING, State
from ..contract import Abort, Claimed, Extended, Lease, Reaped, Session, Settlement, Turn
from ..row import corrupt
from . import lane
from .aside import note_job, tell
from .claim import claim, claimed_again
from .end import cancelled, fail, release
from .settle import come_back, is_alive, settle
from .tx import Tx

DEFAULT_LEASE_MS = 15_000
"""The lease of a reaper that comes before any session."""


def register(tx: Tx, session: Session) -> None:
    """The session may claim in each of its queues."""
    _after_an_outage(tx, session.lease_ms)
    info = msgspec.json.encode(session)
    for queue in session.queues:
        tx.queue(queue)
        tx.run(
            "session", "register", queue=queue, session=session.id, info=info, now=tx.now,
            lease=session.lease_ms, address=session.address,
        )  # fmt: skip


def _after_an_outage(tx: Tx, lease_ms: int | None = None) -> int:
    """When nobody at all was heard for a while, the store was away: expiries move by that gap.

    A while is what whoever was heard last, with a lease of its own, would not have let pass.
    """
    heard, last_ms = tx.run("session", "heard").fetchone()
    gap, last_ms = tx.now - heard, last_ms or lease_ms or DEFAULT_LEASE_MS
    lease_ms = lease_ms or last_ms
    if 0 <= gap < min(1000, lease_ms // 6):
        return 0  # near enough; with a short lease a whole second would itself look like an outage
    tx.run("session", "hear", now=tx.now, lease=lease_ms)
    if heard and gap > last_ms * 2 // 3:
        tx.run("session", "shift", gap=gap)
        return int(gap)
    return 0


def _hear(tx: Tx, session: Session) -> tuple[bool, bool]:
    """Return whether the session is alive, and whether it comes late; a late one is renewed."""
    _after_an_outage(tx, session.lease_ms)
    expires, count, parked, heard = tx.run("session", "alive", session=session.id).fetchone()
    if count < len(session.queues):
        return False, False
    late = expires <= tx.now
    if late or tx.now - heard > session.lease_ms // 3:
        tx.run("extend", "renew", session=session.id, now=tx.now, lease=session.lease_ms)
    if parked:
        tx.run("session", "park", session=session.id, room=None)
    return True, late


class Ask(msgspec.Struct, frozen=True):
    """What a session wants: so many jobs of these queues, besides those that it holds."""

    queues: Sequence[str]
    room: int
    park: bool
    held: int
    only_suspects: bool


def turn(tx: Tx, session: Session, settlements: list[Settlement], ask: Ask) -> Turn:
    """Everything finished is settled, and what there is room for is claimed, in one step."""
    alive, late = _hear(tx, session)
    if not alive:
        return Turn(evicted=True, now_ms=tx.now)
    settled = settle(tx, session, settlements) if settlements else []
    release(tx)
    claimed: list[Claimed] = []
    next_at: int | None = None
    more, room, suspects = False, ask.room, []
    for queue in ask.queues:
        if room <= 0:
            break
        offer = claim(tx, session, queue, room, ask.held + len(claimed), ask.only_suspects)
        claimed += offer.claimed
        room = offer.room
        suspects += [queue] if offer.suspects else []
        more = more or offer.more
        if offer.next_at_ms is not None:
            next_at = offer.next_at_ms if next_at is None else min(next_at, offer.next_at_ms)
    pass_on(tx, settlements)
    if ask.park and room > 0:
        tx.run("session", "park", session=session.id, room=room)
    return Turn(
        late=late,
        settled=settled,
        claimed=claimed,
        next_at_ms=next_at,
        now_ms=tx.now,
        settings={queue: tx.settings(queue) for queue in session.queues},
        more=more,
        suspects=tuple(suspects),
        aborts=_aborts(tx, session),
    )


def pass_on(tx: Tx, settlements: list[Settlement]) -> None:
    """Room that was freed under a limit, and not taken here, wakes somebody else."""
    for queue, freed in Counter(entry.lease.queue for entry in settlements).items():
        settings = tx.settings(queue)
        if settings.limited or settings.key_concurrency or tx.value("lane", "any", queue=queue):
            tx.wake(queue, freed)


def _aborts(tx: Tx, session: Session) -> list[tuple[Lease, Abort]]:
    found = tx.run("extend", "aborts", session=session.id).fetchall()
    return [(Lease(queue, id, run, attempt), reason) for queue, id, run, attempt, reason in found]


def extend(tx: Tx, session: Session) -> Extended:
    """extend: the session lives for another lease."""
    _after_an_outage(tx, session.lease_ms)
    expires, count, _, _ = tx.run("session", "alive", session=session.id).fetchone()
    if count < len(session.queues):
        return Extended(evicted=True)
    tx.run("extend", "renew", session=session.id, now=tx.now, lease=session.lease_ms)
    return Extended(late=expires <= tx.now, aborts=_aborts(tx, session))


def held(tx: Tx, session: Session) -> list[Claimed]:
    """Return what the store thinks this session is working on."""
    if not is_alive(tx, session):
        return []
    found = []
    for row in tx.rows("session", "held", session=session.id):
        try:
            found.append(claimed_again(tx, row))
        except msgspec.MsgspecError as error:
            fail(tx, row, corrupt(error), Cause.CORRUPT)
            note_job(tx, row, corrupt(error))
    return found


def leave(tx: Tx, session: Session) -> None:
    """The session is over. Whatever it still held counts as stalled at the next reap."""
    if tx.rows("session", "held", session=session.id):
        tx.run("session", "expire_now", session=session.id, now=tx.now)
        return
    tx.run("session", "leave", session=session.id)
    tx.run("session", "forget_aborts", session=session.id)


def reap(tx: Tx, queue: str, limit: int, but: str) -> Reaped:
    """reap: jobs of expired sessions wait in their old place, with a stall counted; or fail at their limit."""
    tx.queue(queue)
    shifted = _after_an_outage(tx)
    tx.run("reap", "cut_back", queue=queue, now=tx.now)
    tx.run("reap", "declare_dead", queue=queue, now=tx.now, but=but)
    dead = [id for (id,) in tx.run("reap", "dead", queue=queue, but=but).fetchall()]
    next_ms = tx.value("reap", "next", queue=queue, now=tx.now, but=but)
    if not dead:
        return Reaped(shifted_ms=shifted, next_ms=next_ms, corrupt=tell(tx))
    states = [_reap(tx, row) for row in tx.rows("reap", "held", queue=queue, limit=limit, but=but)]
    tx.wake(queue, len(states))
    tx.run("reap", "forget", queue=queue)
    tx.run("reap", "forget_aborts")
    return Reaped(
        sessions=tuple(dead),
        returned=sum(state in PENDING for state in states),
        failed=sum(state is State.FAILED for state in states),
        shifted_ms=shifted,
        more=len(states) == limit,
        next_ms=next_ms,
        corrupt=tell(tx),
    )


def _reap(tx: Tx, row: dict[str, object]) -> State:
    if row["cancel"]:
        state = cancelled(tx, row, "reap")
    else:
        error = ErrorRecord(
            type="Stalled",
            kind=Cause.STALL,
            message="its worker vanished while it ran",
            fields={"worker": row["session"]},  # not in the message, so that all stalls have one signature
        )
        slots = tx.value("reap", "slots", queue=row["queue"], session=row["session"])
        state = come_back(tx, row, Cause.STALL, error, exit="reap", company=slots)
    lane.recheck_all(tx, str(row["queue"]), {row["key"]})  # type: ignore[arg-type]
    return state
