"""What operators look at: keys, and what grows and is late."""

from __future__ import annotations

from typing import Any

import msgspec

from ....core.bound import MOST_COUNTED
from ...contract import KeyInfo, KeyOrder, LogMeasure, QueueInfo, QueueMeasure, StoreMeasure
from ...lanes import Lane, at_limit, key_info, ranked
from ...rows import readable_settings
from ..call.array import texts
from ..connection.caller import PostgresCaller

RANKED_BY = 100
"""So many waiting jobs of a key are counted to compare it with others."""


class PostgresMeasures:
    """Measures one schema."""

    def __init__(self, caller: PostgresCaller) -> None:
        self._caller = caller

    async def keys(self, queue: str, order: KeyOrder, limit: int) -> list[KeyInfo]:
        """Return keys of a queue in an order. The jobs of those that are shown are counted, of others only some."""
        found = await self._caller.query("layers", queue=queue)
        if not found:
            return []
        settings = readable_settings(queue, found[0]["declared"], found[0]["operator"])
        every = await self._caller.by_index("keys", queue=queue, order=order, counted=RANKED_BY)
        chosen = [lane.key for lane in ranked((Lane(**row) for row in every), order, limit)]
        rows = await self._caller.by_index("chosen", queue=queue, keys=texts(chosen), counted=MOST_COUNTED)
        lanes = {row["key"]: Lane(**row) for row in rows}
        now = int(await self._caller.now_ms())
        return [key_info(lanes[key], settings, now) for key in chosen if key in lanes]

    async def measure(self, queues: list[QueueInfo]) -> StoreMeasure:
        """Return what grows, waits and is late."""
        rows = {row["name"]: row for row in await self._caller.by_index("active")}
        (size,) = await self._caller.query("size")
        log = _log(size)
        measured = [_measured(info, rows[info.name], size["now_ms"]) for info in queues if info.name in rows]
        return StoreMeasure(now_ms=size["now_ms"], queues=measured, log=log)


def _log(size: dict[str, Any]) -> LogMeasure:
    newest, now = size["newest"], size["now_ms"]
    readers = msgspec.json.decode(size["readers"], type=dict[str, tuple[int, int | None]]) if size["readers"] else {}
    return LogMeasure(
        events=max(0, newest - size["trimmed"]),
        bytes=size["bytes"],
        readers={name: max(0, newest - read) for name, (read, _) in readers.items()},
        lag_ms={name: 0 if since is None else max(0, now - since) for name, (_, since) in readers.items()},
    )


def _measured(info: QueueInfo, row: dict[str, object], now: int) -> QueueMeasure:
    active = msgspec.json.decode(str(row["active"]), type=dict[str, int]) if row["active"] else {}
    due = row["due"]
    return QueueMeasure(
        info=info,
        keys_at_limit=at_limit(active, info.key_overrides, info.settings),
        scheduled_overdue_ms=max(0, now - due) if isinstance(due, int) else 0,
    )
