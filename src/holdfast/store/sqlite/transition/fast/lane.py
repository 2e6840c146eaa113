"""Fast path of a lane's check: the lanes of many keys in four statements.

It equals `lane.recheck`, the slow path, which checks one lane after the other. Keys of a queue with a rate for each key
are left to that, since each has a bucket of its own. Compared by tests/store/sqlite/test_sqlite_fast_paths.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import msgspec

from ...tx import Tx


class LaneView(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What a lane depends on, in the order of the columns of `lane.look_all`, and how it stands."""

    number: int
    """Of its key, among those that were asked for."""
    waiting: int
    active: int
    own_limit: int | None
    turn: int | None
    """`None` for a key that has no lane yet."""
    ready: int | None
    plain: int | None
    """It has neither a bucket nor a time to wait for."""


_decode_views = msgspec.json.Decoder(list[LaneView]).decode


def recheck_together(tx: Tx, queue: str, keys: Sequence[str], served: Mapping[str, int]) -> bool:
    """Set the lanes of different keys; return False, with nothing changed, when that does not work for a key of them.

    `served` has the turns that some have just had; new lanes have the next turns, in the order of the keys.
    """
    settings = tx.queue(queue).settings
    if settings.key_rate is not None or any("\0" in key for key in keys):  # JSON in SQLite ends a text at its first NUL
        return False
    dropped: list[str] = []
    put: list[list[str | int | None]] = []
    for view in _views(tx, queue, keys):
        key = keys[view.number]
        if not view.waiting and not view.active:
            dropped += [key] if view.turn is not None else []
            continue
        limit = view.own_limit
        if limit is None:
            limit = settings.key_limits.get(key, settings.key_concurrency)
        ready = int(view.waiting and (limit is None or view.active < limit))
        turn = served.get(key) or view.turn
        if (turn, ready) != (view.turn, view.ready) or not view.plain:
            put.append([key, turn, ready])
    _number(tx, queue, put)
    if dropped:
        tx.run("lane", "drop_all", queue=queue, keys=json.dumps(dropped))
    if put:
        tx.run("lane", "put_all", queue=queue, lanes=json.dumps(put))
    return True


def _views(tx: Tx, queue: str, keys: Sequence[str]) -> list[LaneView]:
    found = _decode_views(tx.value("lane", "look_all", queue=queue, keys=json.dumps(keys)))
    return sorted(found, key=lambda view: view.number)


def _number(tx: Tx, queue: str, put: Sequence[list[str | int | None]]) -> None:
    """Give the next turns of the queue to lanes that have none."""
    new = [lane for lane in put if lane[1] is None]
    if new:
        last = int(tx.value("queue", "next_turns", queue=queue, count=len(new)))
        for turn, lane in enumerate(new, last - len(new) + 1):
            lane[1] = turn
