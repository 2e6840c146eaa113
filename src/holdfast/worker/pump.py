"""The pump: one call at a time settles every finished attempt and claims as many jobs as there are free slots.

Idle, that is one job at lowest latency; loaded, it is many; no timer is needed to gather a batch. Where the store
works in another process, a second call is under way while the handlers of the first run.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Protocol

from msgspec.structs import replace

from ..core.state import State
from ..errors import StoreError
from ..executor import PoolOptions
from ..hook import Hooks
from ..page import now
from ..registry import Registry
from ..store.contract import CROWD, Filter, Released, Session, Settlement, Store, Turn
from .alarm import Alarm
from .capacity import Ask, Capacity
from .choice import NOTHING, Choice
from .flight import Flight
from .reserve import Reserve
from .trouble import FIRST_PAUSE, Persistent
from .wakeup import WakeUps

log = logging.getLogger("holdfast")


DEAD = "its worker was declared dead"


class Pulse(Protocol):
    """Whoever wants to know that the store was talked to."""

    def __call__(self) -> None: ...


class Pump(Persistent):
    """Keeps the slots full and the store told, for one session at a time."""

    def __init__(
        self, store: Store, registry: Registry, hooks: Hooks, slots: int, poll: float, pulse: Pulse, pool: PoolOptions
    ) -> None:
        super().__init__(store, registry, hooks, slots, pool)
        self._poll = poll
        self._pulse = pulse
        self.capacity = Capacity(registry, self.pool.room)
        self._share = -(-slots // store.turns_at_once)
        self._choice = Choice(self.capacity, self._share)
        self._round, self._flights = self._choice.round, self._choice.flights
        self._loaded = False
        """The last turn for the slots found as many jobs as there was room for."""
        self._ordered = True
        self._listening = False
        self._called = False
        self._counts_claims = True
        self._wake_ups = WakeUps(hooks)
        self._reserve = Reserve()
        self.idle = False
        self.empty = Alarm()
        """Rung when nothing runs and nothing is left to settle."""

    async def run(self, session: Session, evicted: Callable[[], None]) -> None:
        """Works until it no longer claims and nothing is left to settle; or the session is declared dead."""
        self._ordered = len(session.queues) == 1  # which of several comes first, only a reply can tell
        self._loaded = False
        self._round.begin()
        try:
            while self.claiming or self.running or self._finished or self._unsure or self._flights:
                if self._may_ask(session):
                    flight = self._ask(session)
                    if flight.alone:
                        if not await self._landed(session, flight, evicted):
                            return
                        continue
                    self._flights.send(flight, self._on_landing)
                    await _soon(len(self._flights) > 1)
                elif (landed := self._flights.land()) is not None:
                    if not await self._landed(session, landed, evicted):
                        return
                    await _soon(len(self._flights) > 0)
                else:
                    if not self._flights:
                        self._round.begin()  # whatever rings may have made room, or have brought something
                    self._listening = True
                    await self.alarm.wait(self._reserve.seconds(time.monotonic()))
                    self._listening = False
        finally:
            self._flights.cancel()
            self._note_drained()

    def _may_ask(self, session: Session) -> bool:
        """One turn at a time; but under load, one more while the store works, when it is worth the call."""
        if not self._flights:
            pending = self._finished or self._unsure or self._called or not self._ordered
            return bool(pending) or self._wanted(session).room > 0
        if not self._loaded or self._unsure or len(self._flights) >= self._store.turns_at_once:
            return False
        if self._reserve.keeping:  # what is under way must land first: a suspect may have little company
            return False
        ask = self._wanted(session)
        return ask.pool or len(self._finished) + ask.room >= self._share

    def _ask(self, session: Session) -> Flight:
        """Return the next turn, for which room is kept from now on."""
        if self._called:
            self._round.call()
        self._called = False
        ask = self._wanted(session) if self._ordered else NOTHING
        if not ask.room and self._round.asked:
            self._round.begin()
            ask = self._wanted(session)
        settlements, self._finished = self._finished, []
        if ask.room:
            self.drained.clear()
        alone = not self._loaded or self._store.turns_at_once == 1 or self._reserve.keeping
        flight = Flight(settlements, ask, alone)
        flight.call = self._turn(session, flight)
        self._flights.add(flight)
        self._choice.sent(ask)
        return flight

    def _wanted(self, session: Session) -> Ask:
        """Return what to claim next, besides what is being claimed."""
        if not self.claiming:
            return NOTHING
        self._reserve.look(time.monotonic(), self._suspects > 0)
        ask = self._choice.ask(self._reserve.queues(self._barred.served(session.queues)), self._free())
        company = self._company()
        if company is None:
            return ask
        return replace(ask, room=max(0, min(ask.room, company - len(self.running) - self._flights.room)))

    def _on_landing(self) -> None:
        if self._listening:  # or else it will look by itself, and a bell would cost a turn for nothing
            self.alarm.ring()

    def _is_claiming(self) -> bool:
        return self._counts_claims and self._flights.claim

    def count_on_no_claim(self) -> None:
        """A claim that is under way is no longer waited for: its store may hang."""
        self._counts_claims = False
        self._note_drained()

    async def _landed(self, session: Session, flight: Flight, evicted: Callable[[], None]) -> bool:
        """What the turn brought is at work. False: there is no use in going on."""
        try:
            turn = await flight.call
        except Exception as error:
            self._flights.forget(flight)
            self._note_drained()
            return await self._failed(session, flight.settlements, error)
        self._flights.forget(flight)
        self._pause = FIRST_PAUSE
        if turn.evicted:
            self._finished = flight.settlements + self._finished
            evicted()
            return False
        self._after(turn, flight.settlements)
        self._choice.landed(flight.ask, turn)
        self._note_suspects(flight.ask, turn)
        self._note_drained()
        if not flight.ask.pool:
            self._loaded = 0 < flight.ask.room <= len(turn.claimed)
        if self._ordered and (flight.ask.pool or not self._flights):
            await self._look_for_hungry(session)
        if self._ordered and not self._flights:
            await self._rest(session, turn, flight.ask)
        self._ordered = True
        return True

    def _note_suspects(self, ask: Ask, turn: Turn) -> None:
        if not ask.room:
            return
        kept, at = self._reserve.keeping, time.monotonic()
        self._reserve.look(at, self._suspects > 0)
        self._reserve.told(at, ask.queues, turn.suspects, len(turn.claimed) < ask.room)
        if kept != self._reserve.keeping:  # other jobs are asked for now than before
            self._round.begin()

    async def _turn(self, session: Session, flight: Flight) -> Turn:
        if self._unsure:
            await self._take_stock(session, flight.settlements)
            flight.ask = self.capacity.cut(flight.ask, 0 if self._suspects else self._free())
            self._unsure = False
        ask, keeping = flight.ask, self._reserve.keeping
        wants = flight.alone and self._reserve.wants(time.monotonic())
        asked_at = now()
        turn = await self._store.settle_and_claim(
            session,
            flight.settlements,
            ask.queues,
            ask.room,
            park=self.claiming and not keeping,
            idle=not self.running and len(self._flights) <= 1 and not self._barred,
            held=len(self.running) if wants else CROWD,
            only_suspects=keeping,
        )
        if turn.claimed and now() - asked_at > session.lease_ms / 1000:
            # This worker was held up for longer than its lease: others may have these jobs by now, so ask once more.
            return replace(turn, claimed=[], unsure=True)
        return turn

    async def _look_for_hungry(self, session: Session) -> None:
        """It is known which queues have jobs waiting that are too large for the room of the moment."""
        served = [queue for queue in self._barred.served(session.queues) if queue not in self._choice.paused]
        blocked = self.capacity.blocked(self._choice.order(served), self._free())
        self._round.hungry = [queue for queue in blocked if await self._has_waiting(queue)]

    async def _has_waiting(self, queue: str) -> bool:
        try:
            return bool((await self._store.jobs(Filter(queue=queue, states=(State.WAITING,)), limit=1)).jobs)
        except StoreError:
            return False  # the turn that follows finds that out, too

    def call(self) -> None:
        """The store has something to say: a job, or a handler that must stop. Ask it even with no slot free."""
        self._wake_ups.heard()
        if self.claiming and self.session is not None:
            given = self._store.given(self.session, self._free() - self._flights.slots)
            if given:  # which the store claimed when it rang: there is nothing to ask
                self.idle = False
                self._start(given)
                return
        self.look_again()

    def look_again(self) -> None:
        self._called = True
        self.alarm.ring()

    def _after(self, turn: Turn, settlements: list[Settlement]) -> None:
        self._pulse()
        self._wake_ups.judge(
            any(job.company is None for job in turn.claimed)
        )  # whoever is woken for a suspect may pass
        self._unsure = self._unsure or turn.unsure
        if turn.late:
            self.warn_of_lateness()
        for entry, settled in zip(settlements, turn.settled, strict=True):
            self._count(entry, settled)
        for lease, reason in turn.aborts:
            self.abort(lease, reason)
        if turn.claimed and self.last_try is not None:  # nobody would tell their handlers to stop
            self._finished += [Released(claimed.lease) for claimed in turn.claimed]
        elif turn.claimed:
            self._start(turn.claimed)

    async def _rest(self, session: Session, turn: Turn, ask: Ask) -> None:
        """Sleep until there is something to do, exactly as long as nothing can be claimed."""
        parked = len(turn.claimed) < ask.room
        if not self.running and not self._finished:
            self.empty.ring()
        if not self.claiming or self._finished or self._called or self._unsure or self._wanted(session).room > 0:
            return
        if self._round.again or not parked:  # nobody would wake this worker, unless it asks, and parks, once more
            self._round.begin()
            if self._wanted(session).room > 0:
                return
        kept_for = self._reserve.seconds(time.monotonic())
        if not self._round.asked:
            await self.alarm.wait(kept_for)
            return
        self.idle = not self.running
        wait = min(self._round.seconds(self._poll), self._poll if kept_for is None else kept_for)
        rung = await self.alarm.wait(wait)
        self._round.begin()
        self._wake_ups.polled = not rung and wait == self._poll and kept_for is None
        self.idle = False

    def forget_all(self) -> None:
        """The session is dead: every handler is aborted, and nothing that was done under it is told."""
        for entry in (*self._finished, *self._flights.untold):
            self._lose(entry.lease, DEAD)
        for attempt in self.running.values():
            self._remember(attempt)
            self._lose(attempt.lease, DEAD)
        self._finished = []
        self._unsure = False
        self._zombies.update(attempt for attempt in self.running.values() if attempt.in_thread)
        self.abort_all("lease_lost")
        self.running.clear()
        self._in_processes = self._suspects = 0
        self.drained.set()


async def _soon(busy: bool) -> None:
    """What was just begun is under way: a call is written, handlers have started. Without this, two turns soon go in
    step, and the store and the handlers wait for each other."""
    for _ in range(2 if busy else 0):
        await asyncio.sleep(0)
