"""Looking: jobs, queues, workers and the event log."""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from ...core.chain import ChainRef
from ...core.event import Event
from ...core.job import JobRecord, run_number
from ...core.state import State
from ...errors import ConfigError
from ..contract import Corrupt, EventPage, Filter, Finding, JobPage, QueueInfo, SessionInfo
from ..gather import Gather
from ..row import known_session, readable_settings, suspected
from . import record
from .keys import Keys, short
from .server import Server
from .spot import UNBORN, Spot, mark_of, spot_at, spot_of

CHUNK = 500
_ORDER = (
    State.WAITING, State.SCHEDULED, State.ACTIVE, State.COMPLETED, State.FAILED, State.CANCELLED, State.BLOCKED,
)  # fmt: skip
_INDEXED = {State.ACTIVE: "active", State.FAILED: "letters", State.CANCELLED: "cancelled", State.BLOCKED: "blocked"}
"""States whose runs are few, or in order of run."""


def rid(run: int) -> bytes:
    """Return a run as keys and members spell it."""
    return run.to_bytes(6, "big")


class Reader:
    """Reads one namespace."""

    def __init__(self, server: Server, keys: Keys) -> None:
        self._server = server
        self._keys = keys
        self._fetched: Gather[tuple[str, str], int, tuple[int, bytes | None]] = Gather(self._fetch, CHUNK)

    async def _fetch(self, queue: tuple[str, str], runs: Sequence[int]) -> list[tuple[int, bytes | None]]:
        """Return the time and the record of each run, as it stands."""
        name, now = queue
        at, *raws = await self._server.look("fetch", [self._keys.declared(name)], now, *map(rid, runs))
        return [(at, raw) for raw in raws]

    async def names(self) -> list[str]:
        """Return every queue."""
        key = self._keys.of_store("queues")
        return sorted(name.decode() for name in await self._server.ask(["SMEMBERS", key], key))

    # --- jobs

    async def get(self, queue: str, id: str, run: int | None, now: str) -> JobRecord | None:
        """Return the run that answers for an id, or a given run of it."""
        key, run = self._keys.declared(queue), run_number(run)
        if run is not None and self._server.here:
            at, raw = await self._fetched.ask((queue, now), run)
            parsed = record.parse_or_none(raw)
            if parsed is not None and parsed.id == id and parsed.state.finished and not record.is_gone(parsed, at):
                return record.seen(queue, run, parsed, False, at)
        found = await self._server.look("get", [key], now, short(id), "" if run is None else run)
        if not found:
            return None
        number, raw, successor, at = found
        parsed = record.parse_or_none(raw)
        if parsed is not None:
            return record.seen(queue, number, parsed, bool(successor), at)
        await self.set_aside(queue, [number], now)
        return await self.get(queue, id, None, now)

    async def set_aside(self, queue: str, runs: Sequence[int], now: str) -> None:
        """Runs whose records cannot be read here are dead letters; somebody will be told."""
        await self._server.call("aside", [self._keys.declared(queue)], now, queue, *map(rid, runs))

    async def jobs(self, which: Filter, limit: int, cursor: str | None, now: str, *, chains: bool = False) -> JobPage:
        """Return jobs that match, newest first; with `chains`, first jobs that continued."""
        before = _cursor(cursor)
        names = [which.queue] if which.queue is not None else await self.names()
        each = [
            [job async for job in self.matching(name, which, before.get(name), limit + 1, now, chains=chains)]
            for name in names
        ]
        # The runs of one queue stay in their order, even where the clock went back: the cursor counts by runs.
        found = list(heapq.merge(*each, key=lambda job: (job.enqueued_at_ms, job.run), reverse=True))
        page = found[:limit]
        if len(found) <= limit:
            return JobPage(jobs=page)
        for job in page:
            before[job.queue] = min(job.run, before.get(job.queue, job.run))
        return JobPage(jobs=page, cursor=msgspec.json.encode(before).decode())

    async def matching(
        self,
        queue: str,
        which: Filter,
        before: int | None,
        limit: int,
        now: str,
        *,
        requeued: bool = True,
        chains: bool = False,
    ) -> AsyncIterator[JobRecord]:
        """Yield jobs of one queue that match, newest first. Without `requeued`, none that was started anew."""
        seen = [0]
        async for runs in self._runs(queue, which, before, seen, chains):
            at, *flat = await self._server.look("records", [self._keys.declared(queue)], now, *map(rid, runs))
            seen[0] += len(flat) // 3
            for run, raw, successor in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
                parsed = record.parse_or_none(raw)
                if parsed is None:
                    await self.set_aside(queue, [run], now)
                    continue
                gone = parsed.life.expires_at is not None and parsed.life.expires_at <= at
                if gone or not _matches(which, parsed) or (parsed.rest.requeued_as and not requeued):
                    continue
                yield record.seen(queue, run, parsed, bool(successor), at)
                limit -= 1
                if limit == 0:
                    return

    async def _runs(
        self, queue: str, which: Filter, before: int | None, seen: list[int], chains: bool
    ) -> AsyncIterator[list[int]]:
        """Yield runs that may match, newest first, in chunks."""
        if chains:
            key = self._keys.of(queue, "chains")
            found = {int.from_bytes(each, "big") for each in await self._server.ask(["ZRANGE", key, 0, -1], key)}
        elif which.chain is not None:
            found = await self._runs_of_chain(queue, which.chain)
        elif which.ids:
            found = await self._runs_of(queue, which.ids)
        elif which.states and all(state in _INDEXED for state in which.states):
            found = await self._runs_in(queue, which.states)
        else:
            async for chunk in self._walk(queue, before, seen):
                yield chunk
            return
        runs = sorted((run for run in found if before is None or run < before), reverse=True)
        for start in range(0, len(runs), CHUNK):
            yield runs[start : start + CHUNK]

    async def _runs_of_chain(self, queue: str, chain: ChainRef) -> set[int]:
        run = run_number(chain.run)
        found = await self._server.look("members", [self._keys.declared(queue)], chain.queue, chain.id, run)
        runs = {int.from_bytes(each, "big") for each in found}
        return runs | {run} if queue == chain.queue else runs

    async def _runs_of(self, queue: str, ids: tuple[str, ...]) -> set[int]:
        stored = [short(id) for id in ids]
        commands = [["HMGET", self._keys.of(queue, name), *stored] for name in ("ids", "past")]
        held, past = await self._server.ask_all(commands, self._keys.declared(queue))
        runs = {int.from_bytes(each, "big") for each in held if each}
        return runs.union(*(_runs(each) for each in past if each))

    async def _runs_in(self, queue: str, states: tuple[State, ...]) -> set[int]:
        commands: list[list[Any]] = [
            ["HKEYS", self._keys.of(queue, "active")]
            if state is State.ACTIVE
            else ["ZRANGE", self._keys.of(queue, _INDEXED[state]), 0, -1]
            for state in states
        ]
        replies = await self._server.ask_all(commands, self._keys.declared(queue))
        return {int.from_bytes(each, "big") for reply in replies for each in reply}

    async def _walk(self, queue: str, before: int | None, seen: list[int]) -> AsyncIterator[list[int]]:
        """Yield every run from the newest on, until as many were seen as there are."""
        key = self._keys.declared(queue)
        last, left = await self._server.ask_all([["HGET", key, "run"], ["HLEN", self._keys.of(queue, "jobs")]], key)
        run = int(last or 0) if before is None else min(before - 1, int(last or 0))
        while run > 0 and seen[0] < left:
            yield list(range(run, max(0, run - CHUNK), -1))
            run -= CHUNK

    async def pending(self, queues: list[str], now: str) -> bool:
        """True while a job waits to be claimed, or, once started, for another attempt."""
        for queue in queues:
            if await self._server.look("pending", [self._keys.declared(queue)], now):
                return True
        return False

    # --- queues and workers

    async def queues(self, now: str) -> list[QueueInfo]:
        """Return every queue with its counts and settings."""
        found = [await self._queue(name, now) for name in await self.names()]
        return [info for info in found if info is not None]

    async def _queue(self, name: str, now: str) -> QueueInfo | None:
        reply = await self._server.look("glance", [self._keys.declared(name)], now)
        if not reply:
            return None
        settings, operator, limits, workers, oldest, *counts = reply
        return QueueInfo(
            name=name,
            counts=dict(zip(_ORDER, counts, strict=True)),
            settings=readable_settings(name, settings),
            overrides=record.decoded(operator, dict[str, Any]) or {},
            key_overrides={
                key.decode("utf-8", "replace"): int(each)
                for key, each in zip(limits[::2], limits[1::2], strict=True)
                if each.isdigit()
            },
            workers=workers,
            oldest_waiting_ms=oldest if oldest >= 0 else None,
        )

    async def sessions(self, now: str) -> list[SessionInfo]:
        """Return every worker, each once, whatever queues it serves."""
        found: dict[bytes, list[Any]] = {}
        at = 0
        for name in await self.names():
            at, *rows = await self._server.look("sessions", [self._keys.declared(name)], now)
            for id, info, started, heard, expires, dead, active in rows:
                one = found.setdefault(id, [info, started, heard, expires, 0, 0])
                one[1], one[2], one[3] = min(one[1], started), max(one[2], heard), min(one[3], expires)
                one[4], one[5] = max(one[4], dead), one[5] + active
        infos = [
            SessionInfo(
                session=known_session(id.decode("utf-8", "replace"), info),
                started_at_ms=started,
                heard_at_ms=heard,
                expires_at_ms=expires,
                active=active,
                alive=not dead and expires > at,
            )
            for id, (info, started, heard, expires, dead, active) in found.items()
        ]
        return sorted(infos, key=lambda info: info.started_at_ms)

    async def corrupt(self, queue: str) -> list[Corrupt]:
        """Return what of a queue was set aside, the newest first."""
        key = self._keys.of(queue, "aside")
        return [corrupt_of(queue, text) for text in await self._server.ask(["LRANGE", key, 0, -1], key)]

    async def suspects(self) -> Finding:
        """Return what is to be said of jobs that stalled in company and wait for smaller company."""
        total, example = 0, ("", "", 0)
        for name in await self.names():
            key = self._keys.of(name, "suspects")
            count, places = await self._server.ask_all([["ZCARD", key], ["ZRANGE", key, 0, 0]], key)
            total += count
            for place in places if not example[0] else ():
                raw = await self._server.ask(["HGET", self._keys.of(name, "jobs"), place[-6:]], key)
                parsed = record.parse_or_none(raw)
                example = (name, parsed.id if parsed else "?", (parsed.rest.company if parsed else None) or 1)
        return suspected(total, *example)

    # --- the log

    async def events(self, position: str | None, queue: str | None, id: str | None, limit: int) -> EventPage:
        """Return events after a position: of one queue in commit order, of several merged by time."""
        known = position_of(position)
        names = [queue] if queue is not None else await self.names()
        logs = [_Log(name, await self._info(name), known, position) for name in names]
        if position == "end":
            return EventPage(events=[], position=text_of({log.queue: str(log.end) for log in logs}))
        for log in logs:
            await self._fill(log, id, limit)
        return _page(logs, known, limit)

    async def unread(self, position: str | None) -> list[tuple[str, str]]:
        """Return, for every queue, the first event behind a position; empty when there is no position."""
        if position is None:
            return [(name, "") for name in await self.names()]
        known = position_of(position)
        logs = [_Log(name, await self._info(name), known, position) for name in await self.names()]
        return [(log.queue, str(log.after.seq + 1)) for log in logs]

    async def _info(self, name: str) -> tuple[str, Spot, Spot]:
        """Return the epoch of a queue's log, and the places of its first and last entry."""
        key, events = self._keys.declared(name), self._keys.of(name, "events")
        commands: list[list[Any]] = [
            ["HGET", key, "epoch"],
            ["XRANGE", events, "-", "+", "COUNT", 1],
            ["XREVRANGE", events, "+", "-", "COUNT", 1],
        ]
        found, first, last = await self._server.ask_all(commands, key)
        epoch = (found or UNBORN.encode()).decode()
        nothing = Spot(epoch)
        return epoch, spot_at(*first[0]) if first else nothing, spot_at(*last[0]) if last else nothing

    async def _fill(self, log: _Log, id: str | None, limit: int) -> None:
        """The log has its next entries, at most `limit`."""
        after, wanted = log.after, short(id) if id is not None else None
        count = limit if wanted is None else max(limit, 1000)
        while len(log.entries) < limit:
            found = await self._behind(log.queue, after, count)
            if found is None:
                log.begin_again()
                after = log.after
                continue
            for at, flat in found:
                after = spot_at(at, flat)
                if wanted is None or flat[1] == wanted:
                    log.entries.append((str(after), dict(zip(flat[::2], flat[1::2], strict=True))))
                    if len(log.entries) == limit:
                        return
            if len(found) < count:
                log.looked_at = str(after)
                return

    async def _behind(self, queue: str, after: Spot, count: int) -> list[Any] | None:
        """Return the next entries. `None` when the one before them is another than it was: the server went back in
        time since, and what was read after that may have been replaced."""
        key = self._keys.of(queue, "events")
        found = await self._server.ask(["XRANGE", key, after.entry or "-", "+", "COUNT", count + 1], key)
        if not found or found[0][0].decode() != after.entry:
            return list(found[:count])
        if after.mark not in ("", mark_of(found[0][1])):
            return None
        return list(found[1:])


class _Log:
    """How far one queue's log is read."""

    def __init__(self, queue: str, info: tuple[str, Spot, Spot], known: dict[str, Spot], position: str | None) -> None:
        self.queue = queue
        self.epoch, first, self.end = info
        self.entries: list[tuple[str, dict[bytes, bytes]]] = []
        self.looked_at = ""
        before = known.get(queue)
        self.after = Spot(self.epoch) if before is None or before.unborn else before
        self.reset = False
        self.gap = 0
        if before is None or before.unborn:
            self.gap = 0 if position is None else max(0, first.seq)  # a queue that is younger than the position
        elif self.after.epoch != self.epoch or -1 < self.end.seq < self.after.seq:
            self.begin_again()
        elif first.seq >= 0:
            self.gap = max(0, first.seq - (self.after.seq + 1))

    def begin_again(self) -> None:
        """The log is another one than the position was made for: it is read from its start."""
        self.after, self.reset, self.gap, self.entries = Spot(self.epoch), True, 0, []


def _page(logs: list[_Log], known: dict[str, Spot], limit: int) -> EventPage:
    now_at = {queue: str(spot) for queue, spot in known.items()}
    now_at.update({log.queue: str(log.after) for log in logs})
    decoded = [
        [(log.queue, at, event) for at, fields in log.entries if (event := record.event_or_none(log.queue, fields))]
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


def _runs(text: bytes) -> list[int]:
    try:
        return msgspec.msgpack.decode(text, type=list[int])
    except msgspec.MsgspecError:
        return []


def corrupt_of(queue: str, text: bytes) -> Corrupt:
    """Return what is said of a record that was set aside."""
    try:
        return msgspec.convert({"queue": queue, **msgspec.json.decode(text)}, Corrupt)
    except record.UNREADABLE:
        return Corrupt(kind="note", queue=queue, id="", detail="what was said of a record cannot be read either")


def text_of(position: dict[str, str]) -> str:
    """Return a position, queue by queue, as text."""
    return msgspec.json.encode(position).decode()


def position_of(text: str | None) -> dict[str, Spot]:
    """Return where in each queue's log a position is."""
    if text is None or text == "end":
        return {}
    try:
        texts = msgspec.json.decode(text, type=dict[str, str])
    except msgspec.MsgspecError:
        texts = {"": ""}
    spots = {queue: spot for queue, each in texts.items() if (spot := spot_of(each))}
    if len(spots) < len(texts):
        raise ConfigError(f"position {text!r} is not one that the event log gave")
    return spots


def _cursor(text: str | None) -> dict[str, int]:
    if text is None:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, int])
    except msgspec.MsgspecError:
        raise ConfigError(f"cursor {text!r} is not one that a list of jobs gave") from None


def _matches(which: Filter, found: record.Record) -> bool:
    return (
        (not which.states or found.state in which.states)
        and (which.task is None or found.task == which.task)
        and (which.key is None or found.rest.key == which.key)
        and (not which.ids or found.id in which.ids)
        and (which.enqueued_after_ms is None or found.enqueued_at >= which.enqueued_after_ms)
        and (which.enqueued_before_ms is None or found.enqueued_at < which.enqueued_before_ms)
    )
