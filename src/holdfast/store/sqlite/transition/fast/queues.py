"""Fast path of a turn of many queues: those that have nothing to give are not asked, and settings are told once.

It equals a turn that asks each of its queues and looks up the settings of each, the slow path, which a worker of few
queues takes. Compared by tests/store/sqlite/test_sqlite_fast_paths.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import msgspec

from .....core.limit import QueueSettings
from ...tx import Tx

FEW = 16
"""So many queues are asked one by one."""
STEP = 64
"""Of so many queues at a time it is found out which have something to give."""
MOST_KNOWN = 100
_decode_numbers = msgspec.json.Decoder(list[int]).decode


def giving(tx: Tx, queues: Sequence[str]) -> Iterator[str]:
    """Yield the queues of which a claim may bring a job, or an instant at which there will be one, in their order."""
    if len(queues) <= FEW:
        yield from queues
        return
    for first in range(0, len(queues), STEP):
        part = queues[first : first + STEP]
        if any("\0" in queue for queue in part):  # JSON in SQLite ends a text at its first NUL
            yield from part
            continue
        for number in sorted(_decode_numbers(tx.value("claim", "giving", queues=json.dumps(part)))):
            yield part[number]


class KnownSettings:
    """The settings of the queues of each session, as they were told last: the same mapping while none has changed."""

    def __init__(self) -> None:
        self._known: dict[Sequence[str], tuple[str, dict[str, QueueSettings]]] = {}

    def of(self, tx: Tx, queues: Sequence[str]) -> dict[str, QueueSettings]:
        """Return the settings of these queues."""
        if len(queues) <= FEW or any("\0" in queue for queue in queues):
            return _looked_up(tx, queues)
        queues = tuple(queues)
        revisions = tx.value("queue", "revisions", queues=json.dumps(queues))
        before = self._known.get(queues)
        if before is not None and before[0] == revisions:
            return before[1]
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        found = _looked_up(tx, queues)
        self._known[queues] = (revisions, found)
        return found


def _looked_up(tx: Tx, queues: Sequence[str]) -> dict[str, QueueSettings]:
    return {queue: tx.known_queue(queue).settings for queue in queues}
