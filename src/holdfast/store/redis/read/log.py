"""The event log: of one queue in commit order, of several merged by time."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from ....core.bound import EVENTS_AT_ONCE
from ....core.event import Event, before_end
from ...contract import EventPage
from ..arguments.entry import Flat
from ..caller import RedisCaller
from ..keys import short
from ..record.event import event_or_none
from ..scan.position import UNBORN, QueuePosition, mark_of, parse_position, position_at, text_at, text_of, text_round

LEAST_READ = 50
"""Entries that are read of a log at once, at least."""


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
        return _page(logs, known, await self._merged(logs, id, limit), limit)

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

    async def _merged(self, logs: list[_QueueLog], id: str | None, limit: int) -> list[LogEvent]:
        """Return the next events of all logs by their time, at most `limit`. Of each no more is read than is needed."""
        busy = [log for log in logs if not log.is_at_end]
        count = max(LEAST_READ, limit // max(1, len(busy))) if id is None else max(limit, EVENTS_AT_ONCE)
        heads: list[tuple[int, int]] = []
        for number, log in enumerate(busy):
            if await self._has_next(log, id, min(count, limit) if id is None else count):
                heads.append((log.at_ms, number))
        heapq.heapify(heads)
        found: list[LogEvent] = []
        while len(heads) > 1 and len(found) < limit:
            number = heads[0][1]
            log = busy[number]
            found.append(log.take())
            if log.decode_next() or await self._has_next(log, id, count):
                heapq.heapreplace(heads, (log.at_ms, number))
            else:
                heapq.heappop(heads)
        return found + (await self._of_one(busy[heads[0][1]], id, limit - len(found), count) if heads else [])

    async def _of_one(self, log: _QueueLog, id: str | None, limit: int, count: int) -> list[LogEvent]:
        """Return the next events of one log, at most `limit`."""
        found: list[LogEvent] = []
        while len(found) < limit and await self._has_next(log, id, count):
            found += log.take_all(limit - len(found))
        return found

    async def _has_next(self, log: _QueueLog, id: str | None, count: int) -> bool:
        """Read on until there is a next event; return whether there is one."""
        wanted = short(id) if id is not None else None
        while not log.decode_next():
            if log.is_whole:
                return False
            found = await self._behind(log.queue, log.read_to, count)
            if found is None:
                log.went_back()
                continue
            log.add([(at, flat) for at, flat in found if wanted is None or flat[1] == wanted])
            if found:
                log.read_to = position_at(*found[-1])
            log.is_whole = len(found) < count
        return True

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


class LogEvent(NamedTuple):
    """An event, where it is in the log of its queue, and how many entries before it could not be read."""

    queue: str
    at: str
    event: Event
    damaged: int


class _QueueLog:
    """How far one queue's log is read: up to `after` by the reader, up to `read_to` here."""

    def __init__(
        self,
        queue: str,
        info: tuple[str, QueuePosition, QueuePosition],
        known: dict[str, QueuePosition],
        position: str | None,
    ) -> None:
        self.queue = queue
        self.epoch, first, self.end = info
        self.is_whole = False
        self.damaged = 0
        self._entries: deque[tuple[bytes, Sequence[bytes]]] = deque()
        self._next: LogEvent | None = None
        self._taken = False
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
        self.read_to = self.after

    def begin_before_end(self, back: int) -> None:
        """Read only the last entries. What came before them is no gap: it was not asked for."""
        self.after, self.gap = QueuePosition(self.epoch, max(-1, self.end.seq - back)), 0
        self.read_to = self.after

    def begin_again(self) -> None:
        """Read from the start: the log is another one than the position was made for."""
        self.after, self.reset, self.gap = QueuePosition(self.epoch), True, 0
        self.read_to = self.after

    def went_back(self) -> None:
        """The server went back in time. Once events were taken, the next page begins again, and not this one."""
        if self._taken:
            self.is_whole = True
        else:
            self.begin_again()

    @property
    def is_at_end(self) -> bool:
        """Whether its last entry is the one that was read last, so that it need not be read again."""
        return self.end == self.after

    @property
    def at_ms(self) -> int:
        """The time of the next event."""
        assert self._next is not None
        return self._next.event.at_ms

    def add(self, entries: Sequence[tuple[bytes, Sequence[bytes]]]) -> None:
        """Take in entries that were read."""
        self._entries.extend(entries)

    def decode_next(self) -> bool:
        """Decode the next event, unless that is done; return whether there is one. Damaged entries are counted."""
        while self._next is None and self._entries:
            id, flat = self._entries.popleft()
            event = event_or_none(self.queue, dict(zip(flat[::2], flat[1::2], strict=True)))
            if event is None:
                self.damaged += 1
            else:
                self._next = LogEvent(self.queue, text_at(id, flat), event, self.damaged)
                self.damaged = 0
        return self._next is not None

    def take_all(self, most: int) -> list[LogEvent]:
        """Return the events that were read, at most so many."""
        taken: list[LogEvent] = []
        while len(taken) < most and self.decode_next():
            taken.append(self.take())
        return taken

    def take(self) -> LogEvent:
        """Return the next event, which is read by that."""
        taken, self._next, self._taken = self._next, None, True
        assert taken is not None
        return taken


def _set_positions(found: list[LogEvent], now_at: dict[str, str]) -> None:
    """Give each event the position after it. Of one queue's events in a row, only a part of its text changes."""
    set_position, last, head, tail = msgspec.structs.force_setattr, None, "", ""
    for queue, at, event, _ in found:
        now_at[queue] = at
        if queue != last:
            last, (head, tail) = queue, text_round(now_at, queue)
        set_position(event, "position", f"{head}{at}{tail}")


def _page(logs: list[_QueueLog], known: dict[str, QueuePosition], found: list[LogEvent], limit: int) -> EventPage:
    now_at = {queue: str(position) for queue, position in known.items()}
    now_at.update({log.queue: str(log.after) for log in logs})
    _set_positions(found, now_at)
    gap = sum(log.gap for log in logs) + sum(each.damaged for each in found)
    if len(found) < limit:  # everything was looked at, also what was not asked for: trimming it later is no gap
        now_at.update({log.queue: str(log.read_to) for log in logs})
        gap += sum(log.damaged for log in logs)
    return EventPage(
        events=[each.event for each in found],
        position=text_of(now_at),
        gap=gap,
        reset=any(log.reset for log in logs),
    )
