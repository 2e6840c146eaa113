"""A worker's turn: its attempts end (complete, retry, fail, snooze, release), fenced by their leases, and it claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from ....core.job import Progress
from ....core.state import State
from ....core.transition import Reply, judge
from ...contract import (
    TRANSITION_OF,
    Claimed,
    Complete,
    Failed,
    Lease,
    Released,
    Retried,
    Session,
    Settled,
    Settlement,
    Turn,
)
from ..tx import Row, Tx
from .cancel import cancel_run
from .claim import lane
from .claim.claim import claim
from .complete import complete
from .fail import fail
from .fast.complete import complete_all
from .fast.queues import KnownSettings, giving
from .put_back import release, retry, snooze
from .row import encoded
from .session import aborts, hear, is_alive
from .unblock import unblock_dependants


class Wanted(msgspec.Struct, frozen=True):
    """What a session asks for: so many jobs of these queues, besides those that it holds."""

    queues: Sequence[str]
    room: int
    park: bool
    held: int
    only_suspects: bool


def take_turn(tx: Tx, session: Session, settlements: list[Settlement], wanted: Wanted, known: KnownSettings) -> Turn:
    """Settle what is finished, and claim what there is room for, in one transaction."""
    alive, late = hear(tx, session)
    if not alive:
        return Turn(evicted=True, now_ms=tx.now)
    settled = settle(tx, session, settlements) if settlements else []
    if tx.dependants:
        unblock_dependants(tx)
    jobs: list[Claimed] = []
    next_at: int | None = None
    more, room, suspects = False, wanted.room, []
    for queue in giving(tx, wanted.queues) if room > 0 else ():
        offer = claim(tx, session, queue, room, wanted.held + len(jobs), wanted.only_suspects)
        jobs += offer.claimed
        room = offer.room
        suspects += [queue] if offer.suspects else []
        more = more or offer.more
        if offer.next_at_ms is not None:
            next_at = offer.next_at_ms if next_at is None else min(next_at, offer.next_at_ms)
        if room <= 0:
            break
    if settlements:
        wake_for_freed(tx, settlements)
    if wanted.park and room > 0:
        tx.run("session", "park", session=session.id, room=room)
    return Turn(
        late=late,
        settled=settled,
        claimed=jobs,
        next_at_ms=next_at,
        now_ms=tx.now,
        settings=known.of(tx, session.queues),
        more=more,
        suspects=tuple(suspects),
        aborts=aborts(tx, session),
    )


def settle(tx: Tx, session: Session, settlements: Sequence[Settlement]) -> list[Settled]:
    """Settle every attempt; return the replies in the order given."""
    done = complete_all(tx, session, settlements) if len(settlements) > 1 else None
    return done or settle_each(tx, session, settlements)


def settle_each(tx: Tx, session: Session, settlements: Sequence[Settlement]) -> list[Settled]:
    """Settle attempts one by one. This is the slow path that `complete_all` equals."""
    return [_settle_one(tx, session, entry) for entry in settlements]


def _settle_one(tx: Tx, session: Session, entry: Settlement) -> Settled:
    row = tx.job(entry.lease.run)
    reply = _reply(session, row, entry.lease, TRANSITION_OF[type(entry)])
    if row is None or (reply is Reply.STALE and row["session"] == session.id):  # it knows by now
        tx.run("session", "forget_abort", run=entry.lease.run, attempt=entry.lease.attempt)
    if row is None or reply is not Reply.OK:
        return Settled(reply)
    if row["state"] != "active" or row["attempts"] != entry.lease.attempt:
        return Settled(reply, State(row["state"]))  # a repeat: it was done before
    state = _apply(tx, session, row, entry)
    tx.run("session", "forget_abort", run=row["run"], attempt=row["attempts"])
    if row["key"] is not None:
        lane.recheck(tx, row["queue"], row["key"])
    return Settled(reply, state)


def _reply(session: Session, row: Row | None, lease: Lease, name: str) -> Reply:
    if row is None or (row["queue"], row["id"]) != (lease.queue, lease.id):
        return judge(name, None)
    ours = row["session"] == session.id and row["attempts"] == lease.attempt
    active = row["state"] == "active"
    repeated = ours and not active and row["exit"] == name
    # The attempt before is remembered too: a repeat may come when another worker has claimed the job already.
    if row["last_session"] == session.id and row["attempts"] == lease.attempt + 1:
        repeated = row["last_exit"] == name
    return judge(name, State(row["state"]), holds_lease=ours and active, repeated=repeated)


def _apply(tx: Tx, session: Session, row: Row, entry: Settlement) -> State:
    if row["cancel"] and not (
        isinstance(entry, Complete) and entry.then is None
    ):  # a chain that would continue ends here
        return cancel_run(tx, row, TRANSITION_OF[type(entry)])
    if isinstance(entry, Complete):
        return complete(tx, session, row, entry)
    if isinstance(entry, Retried):
        return retry(tx, row, entry)
    if isinstance(entry, Failed):
        return fail(tx, row, entry.error, entry.cause, ttl=entry.result_ttl_ms, count=entry.cause)
    return release(tx, row, entry) if isinstance(entry, Released) else snooze(tx, row, entry)


def progress(tx: Tx, session: Session, lease: Lease, report: Progress | None, checkpoint: bytes | None) -> Reply:
    """progress: store how far a run is, and what its next attempt should know."""
    reply = _reply(session, tx.job(lease.run), lease, "progress")
    if reply is Reply.OK and not is_alive(tx, session):
        return Reply.STALE
    if reply is Reply.OK:
        stored = encoded(report) if report is not None else None
        tx.run("progress", "store", run=lease.run, progress=stored, checkpoint=checkpoint)
        if tx.run("progress", "noted", run=lease.run, now=tx.now).rowcount:
            fraction, message = (report.fraction, report.message) if report else (None, None)
            tx.run("event", "append_progress", run=lease.run, now=tx.now, fraction=fraction, message=message)
            tx.notify_progress(lease)
    return reply


def wake_for_freed(tx: Tx, settlements: Sequence[Settlement]) -> None:
    """Wake parked workers for the room under a limit that these settlements freed, and that was not used here."""
    for queue, freed in Counter(entry.lease.queue for entry in settlements).items():
        view = tx.known_queue(queue)
        if view.limited or view.settings.key_concurrency or tx.value("lane", "any", queue=queue):
            tx.wake(queue, freed)
