"""The event log: of one queue in commit order, of several merged by time."""

from __future__ import annotations

import heapq

import msgspec

from ....core.bound import EVENTS_AT_ONCE
from ....core.event import Event, before_end
from ...contract import EventPage
from ..arguments.entry import Flat
from ..caller import RedisCaller
from ..keys import short
from ..record.event import event_or_none
from ..scan.position import UNBORN, QueuePosition, mark_of, parse_position, position_at, text_of


class RedisLogReader:
    """Reads the logs of one namespace."""

    def __init__(self, caller: RedisCaller) -> None:
        self._caller = caller

    async def events(self, position: str | None, queue: str | None, id: str | None, limit: int) -> EventPage:
        """Return events after a position."""
        known = parse_position(position)
        names = [queue] if queue is not None else await self._caller.names()
        logs = [_QueueLog(name, await self._info(name), known, position) for name in names]
        if position == "end":
            return EventPage(events=[], position=text_of({log.queue: str(log.end) for log in logs}))
        if (back := before_end(position)) is not None:
            for log in logs:
                log.begin_before_end(back // len(logs))
        for log in logs:
            await self._fill(log, id, limit)
        return _page(logs, known, limit)

    async def unread(self, position: str | None) -> list[tuple[str, str | None]]:
        """Return, for every queue, the first event behind a position; `None` when there is no position."""
        names = await self._caller.names()
        if position is None:
            return [(name, None) for name in names]
        known = parse_position(position)
        logs = [_QueueLog(name, await self._info(name), known, position) for name in names]
        return [(log.queue, str(log.after.seq + 1)) for log in logs]

    async def _info(self, name: str) -> tuple[str, QueuePosition, QueuePosition]:
        """Return the epoch of a queue's log, and the positions of its first and last entry."""
        key, events = self._caller.keys.declared(name), self._caller.keys.of(name, "events")
        commands: list[list[str | int]] = [
            ["HGET", key, "epoch"],
            ["XRANGE", events, "-", "+", "COUNT", 1],
            ["XREVRANGE", events, "+", "-", "COUNT", 1],
        ]
        found, first, last = await self._caller.server.ask_all(commands, key)
        epoch = (found or UNBORN.encode()).decode()
        nothing = QueuePosition(epoch)
        return epoch, position_at(*first[0]) if first else nothing, position_at(*last[0]) if last else nothing

    async def _fill(self, log: _QueueLog, id: str | None, limit: int) -> None:
        """Read the next entries of a log, at most `limit`."""
        after, wanted = log.after, short(id) if id is not None else None
        count = limit if wanted is None else max(limit, EVENTS_AT_ONCE)
        while len(log.entries) < limit:
            found = await self._behind(log.queue, after, count)
            if found is None:
                log.begin_again()
                after = log.after
                continue
            for at, flat in found:
                after = position_at(at, flat)
                if wanted is None or flat[1] == wanted:
                    log.entries.append((str(after), dict(zip(flat[::2], flat[1::2], strict=True))))
                    if len(log.entries) == limit:
                        return
            if len(found) < count:
                log.looked_at = str(after)
                return

    async def _behind(self, queue: str, after: QueuePosition, count: int) -> Flat | None:
        """Return the next entries. `None` when the one before them is another than it was: the server went back in
        time since, and what was read after that may have been replaced."""
        key = self._caller.keys.of(queue, "events")
        found = await self._caller.server.ask(["XRANGE", key, after.entry or "-", "+", "COUNT", count + 1], key)
        if not found or found[0][0].decode() != after.entry:
            return list(found[:count])
        if after.mark not in ("", mark_of(found[0][1])):
            return None
        return list(found[1:])


class _QueueLog:
    """How far one queue's log is read."""

    def __init__(
        self,
        queue: str,
        info: tuple[str, QueuePosition, QueuePosition],
        known: dict[str, QueuePosition],
        position: str | None,
    ) -> None:
        self.queue = queue
        self.epoch, first, self.end = info
        self.entries: list[tuple[str, dict[bytes, bytes]]] = []
        self.looked_at = ""
        before = known.get(queue)
        self.after = QueuePosition(self.epoch) if before is None or before.unborn else before
        self.reset = False
        self.gap = 0
        if before is None or before.unborn:
            self.gap = 0 if position is None else max(0, first.seq)  # a queue that is younger than the position
        elif self.after.epoch != self.epoch or -1 < self.end.seq < self.after.seq:
            self.begin_again()
        elif first.seq >= 0:
            self.gap = max(0, first.seq - (self.after.seq + 1))

    def begin_before_end(self, back: int) -> None:
        """Read only the last entries. What came before them is no gap: it was not asked for."""
        self.after, self.gap = QueuePosition(self.epoch, max(-1, self.end.seq - back)), 0

    def begin_again(self) -> None:
        """Read from the start: the log is another one than the position was made for."""
        self.after, self.reset, self.gap, self.entries = QueuePosition(self.epoch), True, 0, []


def _page(logs: list[_QueueLog], known: dict[str, QueuePosition], limit: int) -> EventPage:
    now_at = {queue: str(position) for queue, position in known.items()}
    now_at.update({log.queue: str(log.after) for log in logs})
    decoded = [
        [(log.queue, at, event) for at, fields in log.entries if (event := event_or_none(log.queue, fields))]
        for log in logs
    ]
    merged = heapq.merge(*decoded, key=lambda item: item[2].at_ms)
    events: list[Event] = []
    for queue, at, event in merged:
        if len(events) == limit:
            break
        now_at[queue] = at
        events.append(msgspec.structs.replace(event, position=text_of(now_at)))
    if len(events) < limit:  # everything was looked at, also what was not asked for: trimming it later is no gap
        now_at.update({log.queue: log.looked_at for log in logs if log.looked_at})
    return EventPage(
        events=events,
        position=text_of(now_at),
        gap=sum(log.gap + len(log.entries) for log in logs) - sum(map(len, decoded)),
        reset=any(log.reset for log in logs),
    )
