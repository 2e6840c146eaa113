"""Which group of queues is asked next, so that each gets its turn, however many turns are under way.

The queues whose jobs take slots alone are one group; each queue with jobs for the pool is a group by itself. Slots and
pool are two lanes: what one has to do never holds up the other. Within a lane it is by priority, then by who was
served least recently. Pure: nothing is awaited here.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..store.contract import Turn
from .capacity import SLOTS, Ask, Capacity
from .flight import Flights
from .round import Round

NOTHING = Ask(SLOTS, (), 0)


class Choice:
    """Chooses for one worker, from what its turns have told."""

    def __init__(self, capacity: Capacity, share: int) -> None:
        self.capacity = capacity
        self.round = Round()
        self.flights = Flights()
        self.paused: set[str] = set()
        self._share = share
        """How many slots one turn claims for at most, so that the others have their part."""
        self._priority: dict[str, int] = {}
        self._served: dict[str, int] = {}
        self._turns = 0
        self._slots_at = self._pool_at = 0
        """The latest turn of each lane."""

    def ask(self, queues: Sequence[str], free: int) -> Ask:
        """Return what to claim next, besides what is being claimed, with so many slots free."""
        order = self.order(queues)
        asks = self.capacity.asks(order, free - self.flights.slots, self.round.is_dry, self.round.hungry)
        slots = next((each for each in asks if not each.pool), None)
        pool = None
        if not self.flights.pool:  # nobody knows yet how much of the pool is left
            pool = next((each for each in asks if each.pool and not (slots and self._is_below(each, slots))), None)
        if slots is None or pool is None:
            return self._cut(slots or pool or NOTHING)
        slots_first = self._slots_at <= self._pool_at and not self._is_above(pool, slots)
        return self._cut(slots if slots_first else pool)

    def order(self, queues: Sequence[str]) -> Sequence[str]:
        """Return the queues, those of higher priority first, then whoever was served least recently."""
        if len(queues) == 1:
            return queues
        return sorted(queues, key=lambda queue: (-self._priority.get(queue, 0), self._served.get(queue, 0)))

    def _cut(self, ask: Ask) -> Ask:
        return ask if ask.pool else Ask(SLOTS, ask.queues, min(ask.room, self._share))

    def _is_below(self, pool: Ask, slots: Ask) -> bool:
        """True for a queue that takes slots, too, when all that take slots alone are of higher priority."""
        priority = self._priority.get(pool.group, 0)
        return pool.slots and all(self._priority.get(queue, 0) > priority for queue in slots.queues)

    def _is_above(self, pool: Ask, slots: Ask) -> bool:
        """True for a queue that takes slots, too, and is of higher priority than any that takes slots alone.

        With some of those above it and some below they take turns, as nobody knows which of them have jobs.
        """
        priority = self._priority.get(pool.group, 0)
        return pool.slots and all(self._priority.get(queue, 0) < priority for queue in slots.queues)

    def sent(self, ask: Ask) -> None:
        """A turn is under way."""
        if ask.room:
            self._turns += 1
            if ask.pool:
                self._pool_at = self._turns
            else:
                self._slots_at = self._turns

    def landed(self, ask: Ask, turn: Turn) -> None:
        """What a turn brought is known."""
        self._priority = {name: settings.priority for name, settings in turn.settings.items()}
        self.paused = {name for name, settings in turn.settings.items() if settings.paused}
        for claimed in turn.claimed:
            self._served[claimed.lease.queue] = self._turns
        if turn.claimed:
            self.round.brought()
        if len(turn.claimed) < ask.room:
            self.round.had_less(ask.group, turn)
        elif ask.room:
            self.round.had_enough(ask.group)
