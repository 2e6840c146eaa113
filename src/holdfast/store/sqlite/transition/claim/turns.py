"""Keys take turns: the key that was served least recently comes first."""

from __future__ import annotations

from ....contract import Session
from ...tx import Tx
from ..fast.claim import next_plain, take
from . import lane


def take_in_turns(tx: Tx, session: Session, queue: str, room: int) -> list[int]:
    """Take jobs of one key after the other; jobs without a key are one group with its own turn.

    This is the slow path that `fast.claim.take_plain` equals, where there are no lanes.
    """
    taken: list[int] = []
    turn, keyless = tx.run("queue", "turn", queue=queue).fetchone()
    while len(taken) < room:
        ready: list[tuple[str | None, int]] = tx.run("lane", "ready", queue=queue, limit=room - len(taken)).fetchall()
        if tx.value("claim", "keyless_waiting", queue=queue):
            ready = sorted([*ready, (None, keyless)], key=lambda entry: entry[1])[: room - len(taken)]
        if not ready:
            break
        for key, _ in ready:
            turn += 1
            if key is None:
                keyless = turn
                runs = next_plain(tx, queue, 1)
            else:
                found = tx.value("claim", "next_of_key", queue=queue, key=key)
                runs = [] if found is None else [found]
            take(tx, session, queue, runs)
            taken += runs
            if key is not None:
                lane.recheck(tx, queue, key, served=turn if runs else 0)
    tx.run("queue", "turns", queue=queue, turn=turn, keyless_turn=keyless)
    return taken
