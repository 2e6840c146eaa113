"""Recovery from trouble with the store: settle outcomes again, and ask what a lost reply may have done."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ..app.hooks import HookEvent, Hooks
from ..core.job import ErrorRecord
from ..errors import StoreError, StoreTooNew
from ..store.contract import Lease, Released, Retried, Session, Settlement, Store
from .outcomes import Outcomes
from .runner import Runner
from .turns.wakeups import Alarm

log = logging.getLogger("holdfast")
T = TypeVar("T")
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 5.0
UNWRITABLE = "UnwritableOutcome"


def tell_trouble(hooks: Hooks, error: Exception) -> None:
    """Log that the store did not answer, and tell hooks."""
    known = isinstance(error, StoreError)
    log.warning("store_away: the store did not answer, trying again: %s", error, exc_info=None if known else error)
    hooks.tell(HookEvent(name="worker_error", error=error, detail=str(error)))


def tell_back(hooks: Hooks, away_since: float) -> None:
    """Log that the store answers again, and tell hooks."""
    told = f"after {time.monotonic() - away_since:.1f} s"
    log.warning("store_back: the store answers again %s", told)
    hooks.tell(HookEvent(name="store_back", detail=told))


class Recovery:
    """Lose no outcome of a handler and no claimed job when the store fails a turn."""

    def __init__(
        self,
        store: Store,
        hooks: Hooks,
        runner: Runner,
        outcomes: Outcomes,
        alarm: Alarm,
        on_too_new: Callable[[Exception], None],
    ) -> None:
        self._store = store
        self._hooks = hooks
        self._runner = runner
        self._outcomes = outcomes
        self._alarm = alarm
        self._on_too_new = on_too_new
        """Called when this worker cannot work with the store any more."""
        self.unsure = False
        """A reply was lost, or the store says that it may have been: what this worker holds must be asked."""
        self._written_off: set[Lease] = set()
        """Attempts that cannot be settled: their jobs come back when this session is over."""
        self.pause = FIRST_PAUSE
        """Seconds until the next try, twice as long each time; the first again once the store has answered a turn."""
        self._away_since: float | None = None
        """When the first turn failed, or was known to hang, that no other has followed with an answer."""
        self.last_try: float | None = None
        """When to stop trying to settle; set at the end of a shutdown."""
        self.gave_up = False
        """The store did not answer until the last try."""

    async def after_failure(
        self, session: Session, settlements: list[Settlement], error: Exception, pauses: bool
    ) -> bool:
        """Keep what a failed turn was to settle for another one, after a pause. False: it is too late for that.

        Turns that fail together pause once: until the store is asked again, what they claimed has no handler.
        """
        self.unsure = True
        self.note_away()
        if settlements and not isinstance(error, StoreError):
            log.error("outcome_unwritable: a turn could not be written, so each outcome is settled alone: %s", error)
            settlements = await self._settle_each(session, settlements)
            if not settlements:
                return True
        self._outcomes.put_back(settlements)
        tell_trouble(self._hooks, error)
        if isinstance(error, StoreTooNew):
            self._on_too_new(error)
        if self.last_try is not None and time.monotonic() > self.last_try:
            self._give_up()
            return False
        if pauses:
            await self._alarm.wait(self.pause * random.uniform(0.5, 1.0))
            self.pause = min(self.pause * 2, LONGEST_PAUSE)
        return True

    def note_away(self) -> None:
        """Note that the store does not answer: what it answers next is told of."""
        if self._away_since is None:
            self._away_since = time.monotonic()

    def answered(self) -> None:
        """Note that the store has answered a turn."""
        self.pause = FIRST_PAUSE
        if self._away_since is not None:
            tell_back(self._hooks, self._away_since)
            self._away_since = None

    def _give_up(self) -> None:
        self.gave_up = True
        lost = self._outcomes.take()
        if lost:
            log.error(
                "outcomes_lost: the store could not settle %d attempts that ended: their jobs come back when the lease "
                "is over", len(lost),
            )  # fmt: skip
        for entry in lost:
            self._outcomes.lose(entry.lease, "the store could not be told of its end")

    async def _settle_each(self, session: Session, settlements: list[Settlement]) -> list[Settlement]:
        """Settle one by one, so that one that cannot be written does not hold up the others: it becomes a failure.

        Return those that were not settled, as the store takes nothing at the moment.
        """
        for number, entry in enumerate(settlements):
            try:
                turn = await self._store.settle_and_claim(session, [entry], (), 0)
            except StoreError:
                return settlements[number:]
            except Exception as error:
                if not await self._answers(session):
                    return settlements[number:]
                self._replace(entry, error)
                continue
            if turn.evicted:
                self._outcomes.put_back(settlements[number:])
                break  # the next turn hears that, too, and ends the session
            self.unsure = self.unsure or turn.unsure
            self._runner.apply(turn, [entry])
        return []

    async def _answers(self, session: Session) -> bool:
        """True when the store takes an empty turn: then it is not the store that is in trouble."""
        try:
            await self._store.settle_and_claim(session, [], (), 0)
        except Exception:
            return False
        return True

    def _replace(self, entry: Settlement, error: Exception) -> None:
        """Replace an outcome that cannot be written by a failure that says so; write off one that already is."""
        if getattr(getattr(entry, "error", None), "type", "") == UNWRITABLE:
            log.error("outcome_written_off: %s/%s cannot be settled: %s", entry.lease.queue, entry.lease.id, error)
            self._outcomes.lose(entry.lease, f"its end cannot be written: {error}")
            self._written_off.add(entry.lease)
            return
        told = f"its outcome could not be written: {type(error).__name__}"
        self._outcomes.unsettled.append(Retried(entry.lease, ErrorRecord(type=UNWRITABLE, message=told)))

    async def take_stock(self, session: Session, settlements: list[Settlement]) -> None:
        """Start or hand back the jobs that the store says we hold and that we do not know of, after a lost reply."""
        running = self._runner.running
        known = set(running) | {entry.lease for entry in settlements} | self._written_off
        held = await self._store.held(session)
        known |= set(running) | {
            entry.lease for entry in self._outcomes.unsettled
        }  # what came with a wake-up meanwhile
        for claimed in held:
            if claimed.lease in known:
                continue
            if self._runner.fits(claimed):
                self._runner.start([claimed])
            else:
                settlements.append(Released(claimed.lease))
        self.unsure = False


class Stopped(Exception):
    """The worker was told to stop before a call was done."""


class Retrying:
    """Repeat the calls that a worker cannot start without while the store is in trouble.

    A call that hangs is given up once the worker is told to stop.
    """

    def __init__(self, hooks: Hooks, grace: float) -> None:
        self._hooks = hooks
        self._grace = grace
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        """Repeat nothing any more: a call that is under way has the grace to end."""
        self._stopped.set()

    async def do(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return what the call returns, however often it had to be repeated; or raise `Stopped`."""
        pause, away_since = FIRST_PAUSE, None
        while not self._stopped.is_set():
            try:
                reply = await self._once(call)
            except StoreTooNew:
                raise  # which no repetition cures
            except StoreError as error:
                away_since = away_since or time.monotonic()
                tell_trouble(self._hooks, error)
            else:
                if away_since is not None:
                    tell_back(self._hooks, away_since)
                return reply
            await self._rest(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, LONGEST_PAUSE)
        raise Stopped

    async def _once(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make the call. One that has not ended when the grace is over hangs, perhaps behind a lock: cancel it."""
        calling, hearing = asyncio.ensure_future(call()), asyncio.ensure_future(self._stopped.wait())
        try:
            await asyncio.wait([calling, hearing], return_when=asyncio.FIRST_COMPLETED)
            if not calling.done():
                await asyncio.wait([calling], timeout=self._grace)
        finally:
            hearing.cancel()
            if calling.cancel():
                await asyncio.wait([calling], timeout=self._grace)
        if self._stopped.is_set() and (not calling.done() or calling.cancelled()):
            raise Stopped
        return calling.result()

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopped.wait()
        except TimeoutError:
            return  # it was not told to stop
