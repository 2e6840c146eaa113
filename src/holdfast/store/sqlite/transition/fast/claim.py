"""Fast path of claim: jobs of a queue without keys, a whole batch in two statements.

It equals `turns.take_in_turns`, the slow path, which takes one job after the other and keeps count of turns. A queue
with lanes is left to that. Compared by tests/store/sqlite/test_sqlite_fast_paths.py.
"""

from __future__ import annotations

import json

import msgspec

from ....contract import Session
from ...tx import Tx


def take_plain(tx: Tx, session: Session, queue: str, room: int) -> list[int] | None:
    """Take up to `room` jobs; `None`, with nothing changed, when the queue has lanes."""
    if tx.value("lane", "any", queue=queue):
        return None
    runs = next_plain(tx, queue, room)
    take(tx, session, queue, runs)
    return runs


def next_plain(tx: Tx, queue: str, limit: int) -> list[int]:
    """Return the runs without a key that are claimed next, in their order."""
    runs: list[int] = msgspec.json.decode(tx.value("claim", "next", queue=queue, room=limit))
    return runs


def take(tx: Tx, session: Session, queue: str, runs: list[int]) -> None:
    """claim: give the lease of these runs to a session."""
    if runs:
        tx.run("claim", "take", session=session.id, now=tx.now, runs=json.dumps(runs))
        tx.moved(queue, "waiting", "active", len(runs))
