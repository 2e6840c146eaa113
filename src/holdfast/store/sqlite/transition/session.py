"""Sessions: a worker registers, is heard (extend) and leaves; and time in which the store was away."""

from __future__ import annotations

import msgspec

from ....core.action import commanded
from ....core.bound import DEFAULT_LEASE_MS, PULSE_MS, PULSES_IN_A_LEASE
from ...contract import Abort, Extended, Lease, Session, SessionCommand
from ...rows import known_command
from ..tx import Tx


def register(tx: Tx, session: Session) -> None:
    """Register a session in each of its queues."""
    shift_after_outage(tx, session.lease_ms)
    info = msgspec.json.encode(session)
    for queue in session.queues:
        tx.queue(queue)
        tx.run(
            "session", "register", queue=queue, session=session.id, info=info, now=tx.now,
            lease=session.lease_ms, address=session.address,
        )  # fmt: skip


def shift_after_outage(tx: Tx, lease_ms: int | None = None) -> int:
    """Move all expiries by the time in which the store was away; return that time.

    It was away when no session was heard for longer than the one that was heard last would have stayed silent.
    """
    heard, last_ms = tx.run("session", "heard").fetchone()
    gap, last_ms = tx.now - heard, last_ms or lease_ms or DEFAULT_LEASE_MS
    lease_ms = lease_ms or last_ms
    if 0 <= gap < min(PULSE_MS, lease_ms // PULSES_IN_A_LEASE):
        return 0  # near enough; with a short lease a whole second would itself look like an outage
    tx.run("session", "hear", now=tx.now, lease=lease_ms)
    if heard and gap > last_ms * 2 // 3:
        tx.run("session", "shift", gap=gap)
        return int(gap)
    return 0


def hear(tx: Tx, session: Session) -> tuple[bool, bool]:
    """Return whether a session is alive, and whether it comes late; its lease is extended when that is due."""
    shift_after_outage(tx, session.lease_ms)
    expires, count, parked, heard = tx.run("session", "alive", session=session.id).fetchone()
    if count < len(session.queues):
        return False, False
    late = expires <= tx.now
    if late or tx.now - heard > session.lease_ms // 3:
        tx.run("extend", "renew", session=session.id, now=tx.now, lease=session.lease_ms, memory=None)
    if parked:
        tx.run("session", "park", session=session.id, room=None)
    return True, late


def is_alive(tx: Tx, session: Session) -> bool:
    """Return whether a session has not been declared dead in any of its queues."""
    _, count, _, _ = tx.run("session", "alive", session=session.id).fetchone()
    return int(count) >= len(session.queues)


def aborts(tx: Tx, session: Session) -> list[tuple[Lease, Abort]]:
    """Return the jobs of a session whose handlers must be told to stop, and why."""
    found = tx.run("extend", "aborts", session=session.id).fetchall()
    return [(Lease(queue, id, run, attempt), reason) for queue, id, run, attempt, reason in found]


def extend(tx: Tx, session: Session, memory_bytes: int | None) -> Extended:
    """extend: move the session's expiry by another lease."""
    shift_after_outage(tx, session.lease_ms)
    expires, count, _, _ = tx.run("session", "alive", session=session.id).fetchone()
    if count < len(session.queues):
        return Extended(evicted=True)
    tx.run("extend", "renew", session=session.id, now=tx.now, lease=session.lease_ms, memory=memory_bytes)
    told = tx.value("session", "told", session=session.id)
    return Extended(late=expires <= tx.now, aborts=aborts(tx, session), command=known_command(told))


def command(tx: Tx, session: str, told: SessionCommand) -> bool:
    """Tell a worker to drain or stop; return whether it is alive."""
    queue, known = tx.run("session", "at", session=session, now=tx.now).fetchone()
    if queue is None:
        return False
    if known not in (told, "stop"):
        tx.run("session", "tell", session=session, command=told)
        tx.append_action(queue, commanded(session, told))
    return True


def leave(tx: Tx, session: Session) -> None:
    """End a session. Jobs that it still held count as stalled at the next reap."""
    if tx.run("session", "held", session=session.id).fetchone():
        tx.run("session", "expire_now", session=session.id, now=tx.now)
        return
    tx.run("session", "leave", session=session.id)
    tx.run("session", "forget_aborts", session=session.id)
