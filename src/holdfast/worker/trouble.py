"""Trouble with the store: what it was told is told again, and what it may have done is asked after."""

from __future__ import annotations

import logging
import random
import time

from ..core.job import ErrorRecord
from ..errors import StoreError
from ..executor import PoolOptions
from ..hook import Hooks
from ..registry import Registry
from ..store.contract import Lease, Released, Retried, Session, Settlement, Store, Turn
from .crew import Crew

log = logging.getLogger("holdfast")
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 5.0
UNWRITABLE = "UnwritableOutcome"


class Persistent(Crew):
    """Loses nothing that a handler said, and no job that was claimed for it."""

    def __init__(self, store: Store, registry: Registry, hooks: Hooks, slots: int, pool: PoolOptions) -> None:
        super().__init__(store, registry, hooks, slots, pool)
        self._unsure = False
        """A reply was lost: nobody knows what this worker holds."""
        self._given_up: set[Lease] = set()
        """Attempts of which no end can be told: their jobs come back when this session is over."""
        self._pause = FIRST_PAUSE
        self.last_try: float | None = None
        """When to stop telling a store that does not answer; set at the end of a shutdown."""
        self.unheard = False
        """The store did not answer to the last."""

    def _after(self, turn: Turn, settlements: list[Settlement]) -> None:
        """What a turn says is taken in."""
        raise NotImplementedError

    async def _failed(self, session: Session, settlements: list[Settlement], error: Exception) -> bool:
        """What could not be told will be told again, after a pause. False: it is too late for that."""
        self._unsure = True
        if settlements and not isinstance(error, StoreError):
            log.error("an outcome could not be written, so each is told by itself: %s", error)
            settlements = await self._tell_apart(session, settlements)
            if not settlements:
                return True
        self._finished = settlements + self._finished
        self.trouble(error)
        if self.last_try is not None and time.monotonic() > self.last_try:
            self._give_up_telling()
            return False
        await self.alarm.wait(self._pause * random.uniform(0.5, 1.0))
        self._pause = min(self._pause * 2, LONGEST_PAUSE)
        return True

    def _give_up_telling(self) -> None:
        self.unheard = True
        if self._finished:
            log.error(
                "the store cannot be told of %d attempts that ended: their jobs come back when the lease is over",
                len(self._finished),
            )
        for entry in self._finished:
            self._lose(entry.lease, "the store could not be told of its end")
        self._finished = []

    async def _tell_apart(self, session: Session, settlements: list[Settlement]) -> list[Settlement]:
        """One outcome that cannot be written does not hold up the others: it becomes a failure that says so.

        Return those that the store could not be told, since it takes nothing at the moment.
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
                self._finished = settlements[number:] + self._finished
                break  # the next turn finds that out, too, and ends the session
            self._after(turn, [entry])
        return []

    async def _answers(self, session: Session) -> bool:
        """True when the store takes a turn with nothing in it: then it is not the store that is in trouble."""
        try:
            await self._store.settle_and_claim(session, [], (), 0)
        except Exception:
            return False
        return True

    def _replace(self, entry: Settlement, error: Exception) -> None:
        """The outcome, which cannot be written, is a failure that says so; one that already is, is given up."""
        if getattr(getattr(entry, "error", None), "type", "") == UNWRITABLE:
            log.error("%s/%s cannot be settled at all: %s", entry.lease.queue, entry.lease.id, error)
            self._lose(entry.lease, f"its end cannot be written: {error}")
            self._given_up.add(entry.lease)
            return
        told = f"its outcome could not be written: {type(error).__name__}"
        self._finished.append(Retried(entry.lease, ErrorRecord(type=UNWRITABLE, message=told)))

    async def _take_stock(self, session: Session, settlements: list[Settlement]) -> None:
        """After a lost reply: what the store says we hold, and we do not know of, is taken up or handed back."""
        known = set(self.running) | {entry.lease for entry in settlements} | self._given_up
        held = await self._store.held(session)
        known |= set(self.running) | {entry.lease for entry in self._finished}  # what came with a wake-up meanwhile
        for claimed in held:
            if claimed.lease in known:
                continue
            if self._fits(claimed):
                self._start([claimed])
            else:
                settlements.append(Released(claimed.lease))
