"""expire: what is past its time is removed, in bounded steps, and the file gets shorter."""

from __future__ import annotations

import json
from typing import Literal

from ....core.bound import MOST_BEHIND, REMEMBERED_MS
from ...contract import Expired
from ..event_log import first_unread
from ..tx import Tx
from .claim import lane

KEPT_FREE = 2048
"""Pages that stay free in any case, 16 MB: the next jobs use them again, which costs less than a longer file."""
KEPT_SHARE = 4
"""And one page in so many of the file."""
SHRINK_STEP = 256
"""Pages in one transaction, 2 MB."""


def expire(tx: Tx, queue: str, limit: int, history: int) -> Expired:
    """Remove finished runs past their retention, old events and old answers, about `limit` of each."""
    most = tx.queue(queue).settings.retention.failed_count
    aged = [run for (run,) in tx.run("expire", "aged", queue=queue, now=tx.now, limit=limit)]
    runs, letters = _remove(tx, aged, limit, "age")
    crowded = 0
    if most is not None and runs < limit:
        crowd = tx.run("expire", "crowded", queue=queue, now=tx.now, most=most, limit=limit - runs).fetchall()
        by_count, crowded = _remove(tx, [run for (run,) in crowd], limit, "count")
        runs += by_count
    swept = sweep(tx, history, limit)
    lanes = lane.recheck_due(tx, queue, limit)
    shrunk = _shrink_file(tx)
    more = runs >= limit or swept or lanes >= limit or shrunk
    return Expired(runs=runs, failed_by_age=letters, failed_by_count=crowded, more=more)


def _remove(tx: Tx, runs: list[int], limit: int, cause: Literal["age", "count"]) -> tuple[int, int]:
    """Remove runs, with the others of their chains; return how many, and how many dead letters were among them."""
    if not runs:
        return 0, 0
    others = tx.run("chain", "others", runs=json.dumps(runs), limit=limit).fetchall()
    if others:  # a chain is removed as a whole; a long one in several steps, its first job last
        runs = [run for (run,) in others] + ([] if len(others) == limit else runs)
    numbers = json.dumps(runs)
    failed = 0
    for queue, state, count in tx.run("expire", "states", runs=numbers).fetchall():
        tx.moved(queue, state, None, count)
        failed += count if state == "failed" else 0
    tx.run("unblock", "remove", runs=numbers)
    tx.run("event", "append_gone", now=tx.now, transition="expire", cause=cause, actor=None, runs=numbers)
    tx.run("expire", "remove", runs=numbers)
    return len(runs), failed


def sweep(tx: Tx, history: int, limit: int) -> bool:
    """Remove old events and answers, at most `limit` of each; return whether there may be more."""
    unread = first_unread(tx)
    events = tx.run("expire", "events", most=history, cap=MOST_BEHIND * history, unread=unread, limit=limit).rowcount
    answers = tx.run("expire", "requests", before=tx.now - REMEMBERED_MS, limit=limit).rowcount
    return events >= limit or answers >= limit


def _shrink_file(tx: Tx) -> bool:
    """Give a step of unused pages back to the disk, if there are many; return whether there is more to give back.

    A file that was made without `auto_vacuum`, by another program, keeps its length and uses its pages again.
    """
    free: int = tx.value("file", "free")
    spare = free - max(KEPT_FREE, int(tx.value("file", "pages")) // KEPT_SHARE)
    if spare <= 0 or tx.value("file", "vacuum") != 2:
        return False
    tx.run("file", "shrink_256").fetchall()
    return spare > SHRINK_STEP
