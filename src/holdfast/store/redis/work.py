"""Working: sessions, turns, heartbeats and upkeep."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ...core.job import Progress
from ...core.limit import QueueSettings
from ...core.transition import Reply
from ...errors import StoreError
from ..contract import (
    Claimed,
    Complete,
    Declaration,
    Expired,
    Extended,
    Lease,
    Reaped,
    Session,
    Settled,
    Settlement,
    Turn,
)
from ..gather import together
from ..row import readable_settings
from . import record, steer
from .deliver import LARGEST, Delivering
from .gift import Gifts
from .keys import short
from .look import corrupt_of
from .settle import SETTLED, Work, aborts_of, arguments, size_of

_json = msgspec.json.encode


class Working(Delivering):
    """What workers call."""

    def _make(self) -> None:
        super()._make()
        self._gifts: dict[str, Gifts] = {}
        self._connections: dict[str, int] = {}
        """By session: how often anything had been connected when it was last sure of what it holds."""
        self._lease = 0.0
        """The longest lease of a session here, in seconds."""
        self._spared: dict[str, float] = {}
        """By queue: until when nobody is declared dead there."""

    async def declare(self, declarations: Sequence[Declaration]) -> None:
        for declaration in declarations:
            await self._know(declaration.queue)
            await steer.change(self._server, self._keys, declaration.queue, self._now(), steer.declare(declaration))

    async def register(self, session: Session) -> None:
        await self._know(*session.queues)
        await self._hear(session.lease_ms)
        if len(session.queues) == 1 and (listener := self._ear.find(session.address)) is not None:
            listener.gifts = self._gifts[session.id] = Gifts(session.queues[0], listener.on_wake)
        for queue in session.queues:
            await self._server.call(
                "register", [self._keys.declared(queue)], self._now(), self._shift, queue, session.id,
                session.lease_ms, _json(session), session.address or "",
            )  # fmt: skip
        self._lease = max(self._lease, session.lease_ms / 1000)
        self._connections[session.id] = self._server.connections

    def _groups(self, queues: Sequence[str]) -> list[list[str]]:
        """Return the queues that one call may have together: all, or in a cluster each alone."""
        return [[queue] for queue in queues] if self.place.kind == "cluster" else [list(queues)]

    def given(self, session: Session, room: int) -> list[Claimed]:
        gifts = self._gifts.get(session.id)
        return [] if gifts is None or not gifts.waiting else gifts.take(room)

    async def settle_and_claim(
        self,
        session: Session,
        settlements: Sequence[Settlement],
        queues: Sequence[str],
        room: int,
        park: bool = False,
        idle: bool = False,
        held: int = 0,
        only_suspects: bool = False,
    ) -> Turn:
        settled: list[Settled] = []
        while (count := together(settlements, size_of, LARGEST)) < len(settlements):
            turn = await self._one_turn(session, settlements[:count], (), 0)
            if turn.evicted:
                return turn
            settled += turn.settled
            settlements = settlements[count:]
        turn = await self._one_turn(session, settlements, queues, room, park, idle, held, only_suspects)
        return msgspec.structs.replace(turn, settled=settled + turn.settled) if settled else turn

    async def _one_turn(
        self,
        session: Session,
        settlements: Sequence[Settlement],
        queues: Sequence[str],
        room: int,
        park: bool = False,
        idle: bool = False,
        held: int = 0,
        only_suspects: bool = False,
    ) -> Turn:
        gifts = self._gifts.get(session.id)
        handed = gifts.handed if gifts is not None else 0
        given = gifts.take(room if queues else 0) if gifts is not None else []
        if gifts is not None and given and not settlements:
            return gifts.turn(given)
        if self._heard is None or self._clock is not None or time.monotonic() * 1000 - self._heard > 50:
            await self._hear(session.lease_ms)
        back = gifts.hand_back() if gifts is not None else []
        wanted = [queue for queue in queues if queue in session.queues]
        if gifts is not None:
            held += gifts.handed - handed
        work = Work(session, [*settlements, *back], wanted, room - len(given), held, only_suspects)
        if self.place.kind == "cluster" and len(session.queues) > 1:
            await self._turn_by_turn(work, park)
        else:
            ranks = dict(zip(work.order, range(1, len(work.order) + 1), strict=True))
            await self._turn(work, session.queues, ranks, park, gifts, idle)
        if work.evicted:
            self._forget(session)
            return Turn(evicted=True, now_ms=work.now)
        work.unsure = self._is_unsure(session)
        for queue, messages in work.posted:
            await self._deliver_all([queue], messages)
        if gifts is None:
            return work.turn([], len(settlements))
        turn = work.turn(given + gifts.take(work.room if queues else 0), len(settlements))
        gifts.after(turn)
        return turn

    def _forget(self, session: Session) -> None:
        """The session is over, and nothing is known of it here."""
        self._gifts.pop(session.id, None)
        self._connections.pop(session.id, None)

    def _is_unsure(self, session: Session) -> bool:
        """True once after anything was connected anew: that server may have forgotten what this session settled."""
        count = self._server.connections
        known = self._connections.get(session.id, count)
        self._connections[session.id] = count
        return known != count

    async def _turn(
        self,
        work: Work,
        queues: Sequence[str],
        ranks: Mapping[str, int],
        park: bool,
        gifts: Gifts | None = None,
        idle: bool = False,
    ) -> None:
        """One call: these queues are settled, and claimed from in the order of their ranks."""
        session = work.session
        parked = "" if not park else "idle" if idle and gifts is not None else "park"
        args: list[Any] = [
            self._now(), self._shift, session.id, session.lease_ms, work.asks, parked, random.randrange(1, 2**31),
        ]  # fmt: skip
        for queue in queues:
            entries = work.entries.pop(queue, ())
            args += (ranks.get(queue, 0), len(entries))
            for _, entry in entries:
                args += arguments(entry)
            work.asked[queue] = entries
        args.append("" if gifts is None else gifts.received)
        for queue in await self._next_queues(work):
            args += (self._keys.declared(queue), queue)
        keys = [self._keys.declared(queue) for queue in queues]
        claims = work.room > 0 and any(rank > 0 for rank in ranks.values())
        reply = await self._server.call("turn", keys, *args, repeat=not claims, tells=bool(work.settled))
        work.now = reply[1]
        if reply[0] == b"evicted":
            work.evicted = True
            return
        work.late = work.late or bool(reply[2])
        for queue, part in zip(queues, reply[3], strict=True):
            self._note(work, queue, part)
        while work.broken:
            queue, run = work.broken.pop()
            await self._reader.set_aside(queue, [run], self._now())
        work.posted += ((name.decode(), flat) for name, flat in zip(reply[4][::2], reply[4][1::2], strict=True))
        if gifts is not None and len(reply) > 5:
            gifts.hear_again(reply[5], work.now)
            if gifts.broken:
                broken, gifts.broken = gifts.broken, []
                await self._reader.set_aside(gifts.queue, broken, self._now())

    async def _next_queues(self, work: Work) -> list[str]:
        """Return other queues in which chains go on; in a cluster they are sent messages."""
        if self.place.kind == "cluster":
            return []
        asked = (entry for entries in work.asked.values() for _, entry in entries)
        found = {entry.then.queue for entry in asked if isinstance(entry, Complete) and entry.then is not None}
        names = sorted(found.difference(work.session.queues))
        await self._know(*names)
        return names

    def _note(self, work: Work, queue: str, part: list[Any]) -> None:
        words, flat, next_at, more, settings, aborts, posted, waiting = part
        for (index, _), word in zip(work.asked.pop(queue), words, strict=True):
            work.settled[index] = SETTLED[word]
        if flat:
            jobs, broken = record.claimed_all(queue, flat, work.now)
            work.took(jobs)
            work.broken += ((queue, run) for run in broken)
        work.next_at[queue] = next_at
        work.more = work.more or bool(more & 1)
        if more & 2:
            work.suspects.append(queue)
        work.settings[queue] = self._decoded(queue, settings)
        work.aborts[queue] = aborts_of(queue, aborts)
        work.waiting[queue] = bool(waiting)
        if posted:
            work.posted.append((queue, posted))

    async def _turn_by_turn(self, work: Work, park: bool) -> None:
        """The same in a cluster: all queues settle at once, and those that have something are claimed from in order."""
        ranks = dict.fromkeys(work.order, -1) if work.room else {}
        first = work.order[0] if ranks else None
        if first is not None:
            await self._turn(work, [first], {first: 1}, park)
        others = [queue for queue in work.session.queues if queue != first]
        results = await asyncio.gather(
            *(self._turn(work, [queue], ranks, park) for queue in others), return_exceptions=True
        )
        for problem in results:
            if isinstance(problem, BaseException):
                raise problem
        for queue in work.order[1:]:
            if work.room > 0 and work.waiting.get(queue) and not work.evicted:
                await self._turn(work, [queue], {queue: 1}, park)
        if work.evicted:  # dead in one queue is dead in all: what was claimed elsewhere must not wait for the lease
            for queue in work.session.queues:
                await self._server.call("leave", [self._keys.declared(queue)], self._now(), work.session.id)

    def _decoded(self, queue: str, text: bytes) -> QueueSettings:
        settings = self._settings.get(text)
        if settings is None:
            if len(self._settings) > 1000:
                self._settings.clear()
            settings = self._settings[text] = readable_settings(queue, text)
        return settings

    async def extend(self, session: Session) -> Extended:
        await self._hear(session.lease_ms)
        found = await asyncio.gather(
            *(self._extend(session, group) for group in self._groups(session.queues)), return_exceptions=True
        )
        if any(isinstance(each, Extended) and each.evicted for each in found):
            return Extended(evicted=True)
        for each in found:  # a node that is away costs the session nothing at the others
            if isinstance(each, BaseException):
                raise each
        parts = [each for each in found if isinstance(each, Extended)]
        return Extended(late=any(part.late for part in parts), aborts=[one for part in parts for one in part.aborts])

    async def _extend(self, session: Session, queues: Sequence[str]) -> Extended:
        keys = [self._keys.declared(queue) for queue in queues]
        reply = await self._server.call("extend", keys, self._now(), self._shift, session.id, session.lease_ms)
        if reply[0] == b"evicted":
            return Extended(evicted=True)
        found = zip(queues, reply[2:], strict=True)
        return Extended(late=bool(reply[1]), aborts=[each for queue, flat in found for each in aborts_of(queue, flat)])

    async def progress(
        self, session: Session, lease: Lease, progress: Progress | None, checkpoint: bytes | None
    ) -> Reply:
        report = "" if progress is None else _json(progress)
        kept = b"" if checkpoint is None else b"=" + checkpoint
        return await self._word(
            "progress", lease.queue, session.id, lease.run, lease.attempt, short(lease.id), report, kept
        )

    async def held(self, session: Session) -> list[Claimed]:
        found: list[Claimed] = []
        for queue in session.queues:
            word, *flat = await self._server.call("held", [self._keys.declared(queue)], self._now(), session.id)
            if word == b"evicted":
                return []
            jobs, broken = record.claimed_all(queue, flat, 0)
            found += jobs
            if broken:
                await self._reader.set_aside(queue, broken, self._now())
        if session.id in self._gifts:
            self._gifts[session.id].known(found)
        return found

    async def leave(self, session: Session) -> None:
        gifts = self._gifts.get(session.id)
        while gifts is not None and session.id in self._gifts:  # what was given and not taken up is handed back
            await self.settle_and_claim(session, (), (), 0)
            if not gifts.waiting:
                self._gifts.pop(session.id, None)
        for queue in session.queues:
            await self._server.call("leave", [self._keys.declared(queue)], self._now(), session.id)

    async def reap(self, queue: str, limit: int = 100, but: str | None = None) -> Reaped:
        await self._know(queue)
        gap = await self._hear()
        if self.place.kind == "cluster" and await self._is_spared(queue):
            return Reaped(shifted_ms=gap)
        returned, failed, more, posted, sessions, untold, next_ms = await self._server.call(
            "reap", [self._keys.declared(queue)], self._now(), self._shift, queue, limit, but or ""
        )
        if posted:
            await self._deliver(queue)
        return Reaped(
            sessions=tuple(sorted(id.decode() for id in sessions)),
            returned=returned,
            failed=failed,
            shifted_ms=gap,
            more=bool(more),
            next_ms=next_ms,
            corrupt=tuple(corrupt_of(queue, text) for text in untold),
        )

    async def _is_spared(self, queue: str) -> bool:
        """True for a lease after the queue's node was away, alone among others: nobody could be heard there."""
        key, began = self._keys.declared(queue), time.monotonic()
        try:
            await self._server.ask(["EXISTS", key], key)
        except StoreError:
            self._spared[queue] = math.inf
            raise
        now = time.monotonic()
        if now - began > self._lease / 3 or self._spared.get(queue) == math.inf:
            self._spared[queue] = now + self._lease
        return now < self._spared.get(queue, 0.0)

    async def expire(self, queue: str, limit: int = 1000) -> Expired:
        self._known.discard(queue)  # the list of queues may have been lost, and is right again after this
        await self._know(queue)
        gone, posted, by_age, by_count, more = await self._server.call(
            "expire", [self._keys.declared(queue)], self._now(), queue, limit, self.place.history
        )
        if posted:
            await self._deliver(queue)
        return Expired(runs=gone, failed_by_age=by_age, failed_by_count=by_count, more=bool(more))
