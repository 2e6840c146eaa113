"""The pump: one call at a time settles every finished attempt and claims as many jobs as there are free slots.

Idle, that is one job at lowest latency; loaded, it is many; no timer is needed to gather a batch. Where the store
works in another process, a second call is under way while the handlers of the first run.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from ..continuation import Blocker
from ..core.job import ErrorRecord
from ..core.state import State
from ..core.transition import Reply
from ..errors import ConfigError, StoreError
from ..executor import Executors, Pool, PoolOptions, ThreadExecutor
from ..hook import Happening, Hooks
from ..registry import Registry
from ..store.contract import (
    Abort,
    BlockerRecord,
    Claimed,
    Filter,
    Lease,
    Released,
    Retried,
    Session,
    Settled,
    Settlement,
    Store,
    Turn,
)
from ..task import Task
from .alarm import Alarm
from .attempt import Attempt
from .capacity import SLOTS, Ask, Capacity, need_of
from .completion import Desk
from .flight import Flight, Flights
from .round import Round

log = logging.getLogger("holdfast")
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 5.0
UNKNOWN_TASK_DELAY_MS = 5_000
UNWRITABLE = "UnwritableOutcome"
NOTHING = Ask("", (), 0)


class Report(msgspec.Struct, kw_only=True):
    """What a worker did."""

    started: int = 0
    completed: int = 0
    retried: int = 0
    failed: int = 0
    snoozed: int = 0
    released: int = 0
    cancelled: int = 0
    lost: int = 0
    """Attempts whose end did not count, because the lease was gone."""
    stuck: int = 0
    """Threads that did not return after their time-out, for which the worker ended (`on_stuck="exit"`)."""


_WORD = {"complete": "completed", "retry": "retried", "fail": "failed", "snooze": "snoozed", "release": "released"}
_STATE_WORD = {"failed": "failed", "cancelled": "cancelled"}


class Pulse(Protocol):
    """Whoever wants to know that the store was talked to."""

    def __call__(self) -> None: ...


class Pump:
    """Keeps the slots full and the store told, for one session at a time."""

    def __init__(
        self, store: Store, registry: Registry, hooks: Hooks, slots: int, poll: float, pulse: Pulse, pool: PoolOptions
    ) -> None:
        self._store = store
        self.registry = registry
        self._hooks = hooks
        self._slots = slots
        self._poll = poll
        self._pulse = pulse
        self.alarm = Alarm()
        self.pool = Pool(pool, [each.place for each in registry.resources], self.alarm.ring)
        self.executors = Executors(ThreadExecutor(slots), self.pool, self._blocker_records)
        self.capacity = Capacity(registry, self.pool.room)
        self._round = Round()
        self._in_processes = 0
        """How many of the running attempts take no slot."""
        self._finished: list[Settlement] = []
        self._unsure = False
        self._flights = Flights()
        self._share = -(-slots // store.turns_at_once)
        """How much one turn claims at most, so that the others have their part."""
        self._loaded = False
        """The last turn found as many jobs as there was room for."""
        self._ordered = True
        self._pause = FIRST_PAUSE
        self._listening = False
        self._called = False
        self._polled = self._deaf = False
        self._missed = 0
        self._zombies: set[Attempt] = set()
        self._turns = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self.last_try: float | None = None
        """When to stop telling a store that does not answer; set at the end of a shutdown."""
        self.session: Session | None = None
        self._unknown: set[str] = set()
        self._served: dict[str, int] = {}
        self._priority: dict[str, int] = {}
        self.running: dict[Lease, Attempt] = {}
        self.report = Report()
        self.claiming = True
        self.idle = False
        self.empty = Alarm()
        """Rung when nothing runs and nothing is left to settle."""
        self.drained = asyncio.Event()
        """Set while nothing runs, and nothing is being claimed that would."""
        self.drained.set()

    async def run(self, session: Session, evicted: Callable[[], None]) -> None:
        """Works until it no longer claims and nothing is left to settle; or the session is declared dead."""
        self._ordered = len(session.queues) == 1  # which of several comes first, only a reply can tell
        self._loaded = False
        self._round.begin()
        try:
            while self.claiming or self.running or self._finished or self._unsure or self._flights:
                if self._may_ask(session):
                    self._ask(session)
                    await _soon(len(self._flights) > 1)
                elif (flight := self._flights.land()) is not None:
                    if not await self._landed(session, flight, evicted):
                        return
                    await _soon(len(self._flights) > 0)
                else:
                    if not self._flights:
                        self._round.begin()  # whatever rings may have made room, or have brought something
                    self._listening = True
                    await self.alarm.wait()
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
        ask = self._wanted(session)
        return ask.group == SLOTS == self._flights.group and len(self._finished) + ask.room >= self._share

    def _ask(self, session: Session) -> None:
        if self._called:
            self._round.call()
        self._called = False
        ask = self._wanted(session) if self._ordered else NOTHING
        if not ask.room and self._round.asked:
            self._round.begin()
            ask = self._wanted(session)
        if ask.group == SLOTS:
            ask = Ask(SLOTS, ask.queues, min(ask.room, self._share))
        settlements, self._finished = self._finished, []
        flight = Flight(settlements, ask)
        if ask.room:
            self.drained.clear()
        self._flights.send(flight, self._turn(session, flight), self._on_landing)

    def _wanted(self, session: Session) -> Ask:
        """Return what to claim next, besides what is being claimed."""
        if not self.claiming:
            return NOTHING
        order = sorted(session.queues, key=self._order) if len(session.queues) > 1 else session.queues
        return (
            self.capacity.ask(order, self._free() - self._flights.room, self._round.asked, self._round.hungry)
            or NOTHING
        )

    def _on_landing(self) -> None:
        if self._listening:  # or else it will look by itself, and a bell would cost a turn for nothing
            self.alarm.ring()

    async def _landed(self, session: Session, flight: Flight, evicted: Callable[[], None]) -> bool:
        """What the turn brought is at work. False: there is no use in going on."""
        try:
            turn = flight.call.result()
        except Exception as error:
            self._note_drained()
            return await self._failed(session, flight.settlements, error)
        self._pause = FIRST_PAUSE
        if turn.evicted:
            self._finished = flight.settlements + self._finished
            evicted()
            return False
        self._after(turn, flight.settlements)
        self._note_drained()
        self._loaded = 0 < flight.ask.room <= len(turn.claimed)
        if self._ordered and not self._flights:
            await self._look_for_hungry(session)
            await self._rest(session, turn, flight.ask)
        self._ordered = True
        return True

    async def _failed(self, session: Session, settlements: list[Settlement], error: Exception) -> bool:
        """What could not be told will be told again, after a pause. False: it is too late for that."""
        if settlements and not isinstance(error, StoreError):
            log.error("an outcome could not be written, so each is told by itself: %s", error)
            await self._tell_apart(session, settlements)
            return True
        self._finished = settlements + self._finished
        self._unsure = True
        self.trouble(error)
        if self.last_try is not None and time.monotonic() > self.last_try:
            self._give_up_telling()
            return False
        await self.alarm.wait(self._pause * random.uniform(0.5, 1.0))
        self._pause = min(self._pause * 2, LONGEST_PAUSE)
        return True

    async def _turn(self, session: Session, flight: Flight) -> Turn:
        if self._unsure:
            await self._take_stock(session, flight.settlements)
            flight.ask = self.capacity.cut(flight.ask, self._free())
            self._unsure = False
        ask = flight.ask
        idle = not self.running and len(self._flights) <= 1
        return await self._store.settle_and_claim(
            session, flight.settlements, ask.queues, ask.room, park=self.claiming, idle=idle
        )

    async def _look_for_hungry(self, session: Session) -> None:
        """It is known which queues have jobs waiting that are too large for the room of the moment."""
        blocked = self.capacity.blocked(sorted(session.queues, key=self._order), self._free())
        self._round.hungry = [queue for queue in blocked if await self._has_waiting(queue)]

    async def _has_waiting(self, queue: str) -> bool:
        try:
            return bool((await self._store.jobs(Filter(queue=queue, states=(State.WAITING,)), limit=1)).jobs)
        except StoreError:
            return False  # the turn that follows finds that out, too

    def _free(self) -> int:
        """Return how many slots are free. A thread that was given up keeps its slot until it returns."""
        return max(0, self._slots - len(self.running) + self._in_processes - len(self._zombies))

    def _give_up_telling(self) -> None:
        log.error(
            "the store cannot be told of %d attempts that ended: their jobs come back when the lease is over",
            len(self._finished),
        )
        self.report.lost += len(self._finished)
        self._finished = []

    def call(self) -> None:
        """The store has something to say: a job, or a handler that must stop. Ask it even with no slot free."""
        self._called = True
        if self._deaf:
            self._deaf = False
            self._hooks.tell(Happening(name="wakeup_restored"))
        self.alarm.ring()

    async def _tell_apart(self, session: Session, settlements: list[Settlement]) -> None:
        """One outcome that cannot be written does not hold up the others: it becomes a failure that says so."""
        for entry in settlements:
            try:
                turn = await self._store.settle_and_claim(session, [entry], (), 0)
                if turn.evicted:
                    return  # the next turn finds that out, too, and ends the session
                self._after(turn, [entry])
            except StoreError:
                self._finished.append(entry)
            except Exception as error:
                if getattr(getattr(entry, "error", None), "type", "") == UNWRITABLE:
                    log.error("%s/%s cannot be settled at all: %s", entry.lease.queue, entry.lease.id, error)
                    self.report.lost += 1
                    continue
                told = f"its outcome could not be written: {type(error).__name__}"
                self._finished.append(Retried(entry.lease, ErrorRecord(type=UNWRITABLE, message=told)))

    def _order(self, queue: str) -> tuple[int, int]:
        """Higher priority first, then whoever was served least recently."""
        return -self._priority.get(queue, 0), self._served.get(queue, 0)

    async def _take_stock(self, session: Session, settlements: list[Settlement]) -> None:
        """After a lost reply: what the store says we hold, and we do not know of, is taken up or handed back."""
        known = set(self.running) | {entry.lease for entry in settlements}
        for claimed in await self._store.held(session):
            if claimed.lease in known:
                continue
            if self._fits(claimed):
                self._start([claimed])
            else:
                settlements.append(Released(claimed.lease))

    def _fits(self, claimed: Claimed) -> bool:
        handler = self.registry.handler(claimed.lease.queue, claimed.task)
        if handler is not None and handler.in_process:
            return self.claiming and self.pool.room.find(need_of(handler)) is not None
        return self.claiming and self._free() > 0

    def _after(self, turn: Turn, settlements: list[Settlement]) -> None:
        self._pulse()
        self._judge_wake_ups(bool(turn.claimed))
        if turn.late:
            log.warning("this worker's lease had expired before it was heard; nobody had taken its jobs")
        self._priority = {name: settings.priority for name, settings in turn.settings.items()}
        for entry, settled in zip(settlements, turn.settled, strict=True):
            self._count(entry, settled)
        for lease, reason in turn.aborts:
            self.abort(lease, reason)
        if turn.claimed:
            self._turns += 1
            for claimed in turn.claimed:
                self._served[claimed.lease.queue] = self._turns
            self._start(turn.claimed)

    async def _rest(self, session: Session, turn: Turn, ask: Ask) -> None:
        """Sleep until there is something to do, exactly as long as nothing can be claimed."""
        parked = len(turn.claimed) < ask.room
        if parked:
            self._round.had_less(ask.group, turn)
        if not self.running and not self._finished:
            self.empty.ring()
        if not self.claiming or self._finished or self._called or self._wanted(session).room > 0:
            return
        if self._round.again or not parked:  # nobody would wake this worker, unless it asks, and parks, once more
            self._round.begin()
            if self._wanted(session).room > 0:
                return
        if not self._round.asked:
            await self.alarm.wait()
            return
        self.idle = not self.running
        wait = self._round.seconds(self._poll)
        rung = await self.alarm.wait(wait)
        self._round.begin()
        self._polled = not rung and wait == self._poll
        self.idle = False

    def _judge_wake_ups(self, found: bool) -> None:
        """A poll that finds a job which nobody announced means that wake-ups are lost; the next wake-up ends that."""
        self._missed = self._missed + 1 if self._polled and found else 0 if found else self._missed
        if self._missed >= 2 and not self._deaf:  # once may be a wake-up that is still on its way
            self._deaf = True
            log.warning("a poll found jobs that no wake-up had announced; until one comes, each may cost a poll")
            self._hooks.tell(Happening(name="wakeup_degraded"))
        self._polled = False

    def _start(self, jobs: list[Claimed]) -> None:
        loop = self._loop = asyncio.get_running_loop()
        hooked = self._hooks.wanted("claim")
        self.drained.clear()
        for claimed in jobs:
            handler = self._handler(claimed)
            if handler is None:
                continue
            attempt = Attempt(claimed, handler, self._store_progress, self._end, self._desk, self._blockers)
            self.running[claimed.lease] = attempt
            self._in_processes += handler.in_process
            self.report.started += 1
            if hooked:
                self._tell("claim", claimed.lease, "active")
            attempt.start(loop, self.registry, self.executors)
        self._note_drained()

    def _note_drained(self) -> None:
        if not self.running and not self._flights.claim:
            self.drained.set()

    def _handler(self, claimed: Claimed) -> Any:
        """Return what runs the job; one that nobody here knows is released, for perhaps the next worker does."""
        try:
            handler = self.registry.handler(claimed.lease.queue, claimed.task)
            problem = None if handler else f"no task named {claimed.task!r}" if claimed.task else "no handler"
        except ConfigError as error:
            handler, problem = None, str(error)
        if problem is None:
            return handler
        if problem not in self._unknown:
            self._unknown.add(problem)
            log.error("queue %s: %s in this worker; such jobs are released", claimed.lease.queue, problem)
            self._hooks.tell(Happening(name="worker_error", queue=claimed.lease.queue, detail=problem))
        self._finished.append(Released(claimed.lease, delay_ms=UNKNOWN_TASK_DELAY_MS))
        return None

    async def _store_progress(self, lease: Lease, progress: Any, checkpoint: bytes | None) -> Reply:
        assert self.session is not None
        reply = await self._store.progress(self.session, lease, progress, checkpoint)
        if reply is Reply.OK and self._hooks.wanted("progress"):
            self._tell("progress", lease, "active", progress.message if progress else "")
        return reply

    def _desk(self, handler: Task[Any, Any]) -> Desk:
        """Return where an attempt writes and completes in a transaction of its own."""
        assert self.session is not None
        assert self._loop is not None
        atomic = handler.setting("completion") == "atomic"
        return Desk(self._store, self.session, handler, self._loop, atomic=atomic)

    async def _blockers(self, lease: Lease) -> list[Blocker]:
        """Return what a job waited for, decoded by the tasks that gave the results."""
        return [self.registry.blocker(each) for each in await self._blocker_records(lease)]

    async def _blocker_records(self, lease: Lease) -> list[BlockerRecord]:
        return await self._store.blockers(lease.queue, lease.id, lease.run)

    def _end(self, attempt: Attempt, settlement: Settlement | None) -> None:
        """The attempt's slot is free, and what it says will be told at the next turn."""
        lease = attempt.lease
        if self.running.pop(lease, None) is None:
            self._zombies.discard(attempt)  # it was given up before
            self.alarm.ring()
            return
        self._in_processes -= attempt.handler.in_process
        if attempt.done is not None:
            self._count(*attempt.done)  # it has told the store itself
        elif settlement is None:
            self.report.lost += 1
        else:
            self._finished.append(settlement)
        self._note_drained()
        self.alarm.ring()

    def _count(self, entry: Settlement, settled: Settled) -> None:
        if settled.state is State.COMPLETED and not self._hooks.wanted("complete"):
            self.report.completed += 1
            return
        name = type(entry).__struct_config__.tag
        if settled.reply is not Reply.OK:
            self.report.lost += 1
            log.warning("%s of %s/%s came too late: %s", name, entry.lease.queue, entry.lease.id, settled.reply)
            return
        state = str(settled.state)
        word = _STATE_WORD.get(state) or _WORD[str(name)]
        setattr(self.report, word, getattr(self.report, word) + 1)
        transition = {"failed": "fail", "cancelled": "cancel"}.get(state, str(name))
        if self._hooks.wanted(transition):
            error = getattr(entry, "error", None)
            self._tell(transition, entry.lease, state, f"{error.type}: {error.message}" if error else "")

    def _tell(self, name: str, lease: Lease, state: str, detail: str = "") -> None:
        worker = self.session.id if self.session else None
        self._hooks.tell(
            Happening(
                name=name, queue=lease.queue, id=lease.id, run=lease.run, attempt=lease.attempt, state=state,
                worker=worker, detail=detail,
            )
        )  # fmt: skip

    def trouble(self, error: Exception) -> None:
        """It is known that the store did not answer."""
        known = isinstance(error, StoreError)
        log.warning("the store did not answer, trying again: %s", error, exc_info=None if known else error)
        self._hooks.tell(Happening(name="worker_error", error=error, detail=str(error)))

    def abort(self, lease: Lease, reason: Abort) -> None:
        """One handler hears that it should stop."""
        if attempt := self.running.get(lease):
            attempt.abort(reason)

    def abort_all(self, reason: Abort) -> None:
        """Every handler hears that it should stop."""
        for attempt in list(self.running.values()):
            attempt.abort(reason)

    def forget_all(self) -> None:
        """The session is dead: every handler is aborted, and nothing that was done under it is told."""
        self.report.lost += len(self._finished) + len(self.running)
        self._finished = []
        self._unsure = False
        self._zombies.update(attempt for attempt in self.running.values() if attempt.in_thread)
        self.abort_all("lease_lost")
        self.running.clear()
        self._in_processes = 0
        self.drained.set()

    def leave_stuck(self, seconds: float) -> bool:
        """Threads that do not return for so long after their time-out are left behind; return whether any is."""
        now = asyncio.get_running_loop().time()
        stuck = [
            attempt
            for attempt in self.running.values()
            if attempt.in_thread and attempt.late_since is not None and now - attempt.late_since > seconds
        ]
        for attempt in stuck:
            self._zombies.add(attempt)
            attempt.leave_behind()
        self.report.stuck += len(stuck)
        return bool(stuck)

    def give_up_all(self) -> None:
        """What still runs is handed back."""
        for attempt in list(self.running.values()):
            attempt.give_up()
        self.alarm.ring()

    def abandon_all(self) -> None:
        """What still runs is handed back, and its handlers are left alone."""
        for attempt in list(self.running.values()):
            attempt.abandon()

    def close(self) -> None:
        """No handler starts any more."""
        self.executors.threads.close()


async def _soon(busy: bool) -> None:
    """What was just begun is under way: a call is written, handlers have started. Without this, two turns soon go in
    step, and the store and the handlers wait for each other."""
    for _ in range(2 if busy else 0):
        await asyncio.sleep(0)
