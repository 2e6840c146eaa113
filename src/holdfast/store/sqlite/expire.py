"""expire: what is past its time is gone, in bounded steps."""

from __future__ import annotations

import json
from typing import Literal

from ..contract import HELD, Expired
from . import lane, reader, space
from .tx import Tx


def expire(tx: Tx, queue: str, limit: int, history: int, remembered_ms: int) -> Expired:
    """expire: finished runs past their retention are gone, and so are old events and answers."""
    most = tx.queue(queue).settings.retention.failed_count
    aged = [run for (run,) in tx.run("expire", "aged", queue=queue, now=tx.now, limit=limit)]
    runs, letters = _remove(tx, aged, limit, "age")
    crowded = 0
    if most is not None and runs < limit:
        crowd = tx.run("expire", "crowded", queue=queue, now=tx.now, most=most, limit=limit - runs).fetchall()
        by_count, crowded = _remove(tx, [run for (run,) in crowd], limit, "count")
        runs += by_count
    swept = sweep(tx, history, remembered_ms, limit)
    lanes = lane.promote_due(tx, queue, limit)
    room = space.give_back(tx)
    more = runs >= limit or swept or lanes >= limit or room
    return Expired(runs=runs, failed_by_age=letters, failed_by_count=crowded, more=more)


def _remove(tx: Tx, runs: list[int], limit: int, cause: Literal["age", "count"]) -> tuple[int, int]:
    """Return how many runs are gone, with the others of their chains, and how many dead letters were among them."""
    if not runs:
        return 0, 0
    others = tx.run("chain", "others", runs=json.dumps(runs), limit=limit).fetchall()
    if others:  # a chain goes as a whole; a long one in several sweeps, its first job last
        runs = [run for (run,) in others] + ([] if len(others) == limit else runs)
    numbers = json.dumps(runs)
    failed = tx.value("expire", "failed", runs=numbers)
    tx.run("unblock", "remove", runs=numbers)
    tx.run("event", "append_gone", now=tx.now, transition="expire", cause=cause, runs=numbers)
    tx.run("expire", "remove", runs=numbers)
    return len(runs), failed


def sweep(tx: Tx, history: int, remembered_ms: int, limit: int) -> bool:
    """Old events and answers are gone, at most `limit` of each. True when there are more of them."""
    unread = reader.unread(tx)
    events = tx.run("expire", "events", most=history, cap=HELD * history, unread=unread, limit=limit).rowcount
    answers = tx.run("expire", "requests", before=tx.now - remembered_ms, limit=limit).rowcount
    return events >= limit or answers >= limit
