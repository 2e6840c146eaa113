"""Suspects: jobs that stalled come first, in a session that holds few enough others."""

from __future__ import annotations

import msgspec

from .....core.bound import MOST_SUSPECTS
from ....contract import Session
from ...tx import Tx
from ..fast.claim import take
from . import lane


class Suspects(msgspec.Struct):
    """Which suspects a session was given, and what that leaves room for."""

    runs: list[int]
    room: int
    """How many jobs the claim may give in all, these included."""
    left: bool = False
    """One could start, if the session held fewer jobs."""
    next_at_ms: int | None = None
    """When a key has its next token, of which a suspect waits for nothing else."""


NONE = Suspects([], 0)


def take_suspects(tx: Tx, session: Session, queue: str, room: int, held: int) -> Suspects:
    """Take the suspects that come next for the session, as far as company and limits allow them."""
    taken = Suspects([], room)
    for run, key, company in tx.run("claim", "suspects", queue=queue, limit=max(MOST_SUSPECTS, room)).fetchall():
        if len(taken.runs) >= taken.room:
            break
        if key is not None and (at := lane.starts_at(tx, queue, key)) != tx.now:
            if at is not None:
                taken.next_at_ms = at if taken.next_at_ms is None else min(at, taken.next_at_ms)
            continue
        if held + len(taken.runs) + 1 > company:
            taken.left = True
            break
        taken.runs.append(run)
        taken.room = min(taken.room, company - held)
        take(tx, session, queue, [run])
        if key is not None:
            lane.recheck(tx, queue, key, served=lane.next_turn(tx, queue))
    return taken
