"""Keys take turns: the key that was served least recently comes first."""

from __future__ import annotations

import msgspec

from ....contract import Session
from ...tx import Tx
from ..fast.claim import next_plain, take
from ..row import from_hex
from . import lane


def take_in_turns(tx: Tx, session: Session, queue: str, room: int) -> list[int]:
    """Take jobs of one key after the other; jobs without a key are one group with its own turn.

    Each round takes one job of every key that is ready, as far as there is room. This is the slow path that
    `fast.claim.take_plain` equals, where there are no lanes.
    """
    taken: list[int] = []
    turn, keyless = tx.run("queue", "turn", queue=queue).fetchone()
    while len(taken) < room:
        ready = _ready(tx, queue, keyless, room - len(taken))
        if not ready:
            break
        served: dict[str, int] = {}
        for key, _, run in ready:
            turn += 1
            if key is None:
                keyless = turn
            elif run is not None:
                served[key] = turn
        runs = [run for _, _, run in ready if run is not None]
        take(tx, session, queue, runs)
        taken += runs
        lane.recheck_all(tx, queue, [key for key, _, _ in ready], served)
    tx.run("queue", "turns", queue=queue, turn=turn, keyless_turn=keyless)
    return taken


ReadyJob = tuple[str | None, int, int | None]
"""A key, or `None` for jobs without one; its turn; and the run that comes next."""
_decode = msgspec.json.Decoder(list[tuple[str, int, int | None]]).decode


def _ready(tx: Tx, queue: str, keyless: int, limit: int) -> list[ReadyJob]:
    """Return the next job of each key that is ready, by turns; jobs without a key have the turn `keyless`."""
    found = _decode(tx.value("claim", "next_of_keys", queue=queue, limit=limit))
    ready: list[ReadyJob] = [(from_hex(key), turn, run) for key, turn, run in found]
    if plain := next_plain(tx, queue, 1):
        ready.append((None, keyless, plain[0]))
    return sorted(ready, key=lambda entry: entry[1])[:limit]
