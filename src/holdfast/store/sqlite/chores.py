"""What upkeep has to do in many queues, found by reading alone: `reap` and `expire` then do it, queue by queue."""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec

from ..contract import QueueChores
from .tx import Tx

_decode = msgspec.json.Decoder(list[int]).decode


def chores(tx: Tx, queues: Sequence[str], but: str) -> QueueChores:
    """Return in which of these queues there is something to reap or to expire."""
    if any("\0" in queue for queue in queues):  # JSON in SQLite ends a text at its first NUL
        return QueueChores(reap=tuple(queues), expire=tuple(queues))
    asked = json.dumps(queues)
    reap = _decode(tx.value("chores", "reap", queues=asked, now=tx.now, but=but))
    if not reap and queues and tx.value("chores", "untold"):
        reap = [0]  # whatever queue it is called for, `reap` tells of all
    expire = _decode(tx.value("chores", "expire", queues=asked, now=tx.now))
    return QueueChores(
        reap=tuple(queues[number] for number in sorted(reap)),
        expire=tuple(queues[number] for number in sorted(expire)),
        next_ms=tx.value("chores", "next", queues=asked, now=tx.now, but=but),
        policies=tx.value("queue", "revisions", queues=asked) or "",
    )
