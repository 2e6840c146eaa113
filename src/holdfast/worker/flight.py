"""Turns under way: while the store works on one of them, the handlers of another run."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from ..store.contract import Settlement, Turn
from .capacity import Ask


class Flight:
    """One call of `settle_and_claim` that is on its way, with what it tells and what it keeps room for."""

    __slots__ = ("alone", "ask", "call", "settlements")

    def __init__(self, settlements: list[Settlement], ask: Ask, alone: bool) -> None:
        self.settlements = settlements
        self.ask = ask
        self.alone = alone
        """No other is sent before it has landed, so that it may bring a suspect."""
        self.call: Awaitable[Turn]


class Flights:
    """Turns in the order in which they were sent, which is the order in which their replies are heard."""

    def __init__(self) -> None:
        self._flights: deque[Flight] = deque()

    def __len__(self) -> int:
        return len(self._flights)

    @property
    def claim(self) -> bool:
        """True while one of them may bring a job."""
        return any(flight.ask.room for flight in self._flights)

    @property
    def room(self) -> int:
        """How many jobs these turns may bring."""
        return sum(flight.ask.room for flight in self._flights)

    @property
    def slots(self) -> int:
        """The slots that are kept for what these turns may claim."""
        return sum(flight.ask.room for flight in self._flights if flight.ask.slots)

    @property
    def pool(self) -> bool:
        """True while one of them may bring a job for the pool."""
        return any(flight.ask.room and flight.ask.pool for flight in self._flights)

    @property
    def untold(self) -> list[Settlement]:
        """The outcomes that are on their way to the store."""
        return [entry for flight in self._flights for entry in flight.settlements]

    def add(self, flight: Flight) -> None:
        """Room is kept for what the turn may claim."""
        self._flights.append(flight)

    def send(self, flight: Flight, landed: Callable[[], None]) -> None:
        """The turn is under way by itself; `landed` is called when it ends, in whatever way."""
        flight.call = task = asyncio.ensure_future(flight.call)
        task.add_done_callback(lambda _: landed())

    def land(self) -> Flight | None:
        """Return the oldest turn, if it has ended."""
        if self._flights and isinstance(call := self._flights[0].call, asyncio.Future) and call.done():
            return self._flights[0]
        return None

    def forget(self, flight: Flight) -> None:
        """The turn is no longer under way."""
        if flight in self._flights:
            self._flights.remove(flight)

    def cancel(self) -> None:
        """Nobody waits for a reply any more."""
        while self._flights:
            call = self._flights.popleft().call
            if isinstance(call, asyncio.Future):
                call.cancel()
