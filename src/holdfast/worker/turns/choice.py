"""The turns of a worker: those that are pending, and which group of queues is asked next, so that each gets its turn.

The queues whose jobs take one slot are one group; each queue with larger jobs, or with jobs for the pool, is a group by
itself. Slots and pool are two lanes: work in one never holds up the other. Within a lane groups go by priority, then by
which was served least recently. Each group is asked once in a round, before the worker sleeps. While the
store works on one turn, the handlers of another run. Nothing is awaited here.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence

from msgspec.structs import replace

from ...core.bound import FEW_QUEUES
from ...core.limit import QueueSettings
from ...store.contract import Settlement, Turn
from .capacity import SLOTS, Capacity, ClaimRequest

NOTHING = ClaimRequest(SLOTS, (), 0)
DRY_FOR = 10
"""A group that had fewer jobs than there was room for is passed over for so many turns that bring jobs from others:
not for ever, as a worker with a backlog never sleeps, and not for one turn alone, as each question costs a call."""


class PendingTurn:
    """One call of `settle_and_claim` on its way, with what it settles and what it keeps room for."""

    __slots__ = ("alone", "call", "given", "request", "settlements", "shares_failure")

    def __init__(self, settlements: list[Settlement], request: ClaimRequest, alone: bool, given: int = 0) -> None:
        self.settlements = settlements
        self.request = request
        self.alone = alone
        """No other turn is sent before it has ended, so that it may bring a suspect."""
        self.given = given
        """How many jobs had come with wake-ups when it was sent."""
        self.shares_failure = False
        """It was pending when an earlier turn failed: if it fails, too, that is the same trouble."""
        self.call: Awaitable[Turn]


class PendingTurns:
    """Turns in the order in which they were sent, which is the order in which their replies are applied."""

    def __init__(self) -> None:
        self._turns: deque[PendingTurn] = deque()
        self._claims_count = True

    def __len__(self) -> int:
        return len(self._turns)

    @property
    def may_bring_jobs(self) -> bool:
        """True while a turn that may claim jobs is waited for."""
        return bool(self._turns) and self._claims_count and any(turn.request.room for turn in self._turns)

    @property
    def room(self) -> int:
        """How many jobs these turns may bring."""
        return sum(turn.request.room for turn in self._turns)

    @property
    def slots(self) -> int:
        """The slots that are kept for what these turns may claim."""
        return sum(turn.request.kept for turn in self._turns) if self._turns else 0

    @property
    def pool(self) -> bool:
        """True while one of them may bring a job for the pool."""
        return any(turn.request.room and turn.request.pool for turn in self._turns)

    @property
    def unsettled(self) -> list[Settlement]:
        """The settlements that are on their way to the store."""
        return [entry for turn in self._turns for entry in turn.settlements]

    def add(self, turn: PendingTurn) -> None:
        """Keep room for what the turn may claim."""
        self._turns.append(turn)

    def send(self, turn: PendingTurn, ended: Callable[[], None]) -> None:
        """Run the turn as a task of its own; `ended` is called at its end, in whatever way."""
        turn.call = task = asyncio.ensure_future(turn.call)
        task.add_done_callback(lambda _: ended())

    def oldest_ended(self) -> PendingTurn | None:
        """Return the oldest turn, if it has ended."""
        if self._turns and isinstance(call := self._turns[0].call, asyncio.Future) and call.done():
            return self._turns[0]
        return None

    def remove(self, turn: PendingTurn) -> None:
        """Drop a turn that has ended."""
        if turn in self._turns:
            self._turns.remove(turn)

    def share_failure(self) -> None:
        """Note that a turn failed: one broken connection fails every turn that is pending on it."""
        for turn in self._turns:
            turn.shares_failure = True

    def write_off_claims(self) -> None:
        """Wait no longer for jobs that a pending turn may bring: its store may hang."""
        self._claims_count = False

    def cancel(self) -> None:
        """Cancel all turns."""
        while self._turns:
            call = self._turns.popleft().call
            if isinstance(call, asyncio.Future):
                call.cancel()


class ClaimRound:
    """Which groups had fewer jobs than there was room for, and when the next job becomes claimable."""

    def __init__(self) -> None:
        self.hungry: list[str] = []
        """Queues with waiting jobs that are too large for the room of the moment."""
        self.again = False
        """A wake-up came since the first group was asked: it may have been for a group that was asked already."""
        self._brought = 0
        self._dry: dict[str, int] = {}
        self._next_at: float | None = None

    @property
    def asked(self) -> bool:
        """True when some group was asked and had too few jobs."""
        return bool(self._dry)

    def is_dry(self, group: str) -> bool:
        """Return whether the group need not be asked yet."""
        return self._dry.get(group, -1) > self._brought

    def begin(self) -> None:
        """Ask all groups anew."""
        self._dry.clear()
        self.again = False

    def call(self) -> None:
        """Ask those again that were asked already, but after those that were not."""
        self.again = self.again or self.asked
        for group in self._dry:
            self._dry[group] = min(self._dry[group], self._brought + 1)

    def brought(self) -> None:
        """Note that a turn brought jobs."""
        self._brought += 1

    def had_enough(self, group: str) -> None:
        """Note that the group may have more jobs."""
        self._dry.pop(group, None)

    def had_less(self, group: str, turn: Turn) -> None:
        """Note that the group need not be asked for now."""
        self._dry[group] = self._brought + DRY_FOR
        if turn.next_at_ms is not None:
            at = time.monotonic() + (turn.next_at_ms - turn.now_ms) / 1000
            self._next_at = at if self._next_at is None else min(at, self._next_at)

    def seconds(self, most: float) -> float:
        """Return for how long no job becomes claimable in the queues that were asked, at most `most` seconds."""
        at, self._next_at = self._next_at, None
        return most if at is None else min(most, max(0.0, at - time.monotonic()))


class ClaimChoice:
    """Choose what one worker asks for next, by what its turns have told."""

    def __init__(
        self,
        capacity: Capacity,
        pending: PendingTurns,
        round: ClaimRound,
        share: int,
        large_share: int = 0,
        place: float | None = None,
    ) -> None:
        """`place`: where among many queues it begins, from 0 to 1; `None`: anywhere."""
        self.capacity = capacity
        self._place = random.random() if place is None else place
        self.round = round
        self._pending = pending
        self.paused: set[str] = set()
        self._share = share
        self._large_share = max(share, large_share)
        self.handlers_wait = True
        """Whether handlers keep their slots for longer than a turn takes."""
        self._priority: dict[str, int] = {}
        self._priorities: frozenset[int] = frozenset()
        self._served: dict[str, int] = {}
        self._ordered: Sequence[str] | None = None
        """The queues whose order is known, and the order; of a thousand it is not made anew for each question."""
        self._order: tuple[str, ...] = ()
        self._settings: Mapping[str, QueueSettings] | None = None
        self._turns = 0
        self._slots_at = self._pool_at = 0
        """The latest turn of each lane."""

    @property
    def share(self) -> int:
        """How many slots one turn claims for at most, so that other turns have their part.

        Handlers that do not wait end together, so that two turns are enough to keep worker and store busy; handlers
        that wait have their next jobs sooner by more and smaller turns.
        """
        return self._share if self.handlers_wait else self._large_share

    def request(self, queues: Sequence[str], free: int) -> ClaimRequest:
        """Return what to claim next, beside what is being claimed, with so many slots free."""
        order = self.order(queues)
        if self._pending:
            free -= self._pending.slots
        if self.capacity.is_one_slot(order):  # as in most workers: there is one group
            if free <= 0 or not order or self.round.is_dry(SLOTS):
                return NOTHING
            return ClaimRequest(SLOTS, tuple(order), min(free, max(1, self.share)))
        requests = self.capacity.requests(order, free, self.round.is_dry, self.round.hungry)
        slots = next((each for each in requests if not each.pool), None)
        pool = None
        if not self._pending.pool:  # otherwise it is not known yet how much of the pool is left
            pool = next((each for each in requests if each.pool and not (slots and self._is_below(each, slots))), None)
        if slots is None or pool is None:
            return self._cut(slots or pool or NOTHING)
        slots_first = self._slots_at <= self._pool_at and not self._is_above(pool, slots)
        return self._cut(slots if slots_first else pool)

    def order(self, queues: Sequence[str]) -> Sequence[str]:
        """Return the queues by priority, the highest first, then by which was served least recently."""
        if len(queues) == 1:
            return queues
        if self._ordered is not queues:
            found = sorted(self._from_here(queues), key=self._rank)
            self._ordered, self._order = queues, tuple(found)
        return self._order

    def _rank(self, queue: str) -> tuple[int, int]:
        return -self._priority.get(queue, 0), self._served.get(queue, 0)

    def _from_here(self, queues: Sequence[str]) -> Sequence[str]:
        """Return the queues as they come while none was served: of many, each worker begins with others.

        Workers that begin together would else meet in each queue, and find in most what another has just emptied.
        """
        if len(queues) <= FEW_QUEUES:
            return queues
        first = int(self._place * len(queues))
        return (*queues[first:], *queues[:first])

    def _note_served(self, queues: set[str]) -> None:
        """Note which queues were served just now: within their priority they come last."""
        for queue in queues:
            self._served[queue] = self._turns
        if len(self._priorities) > 1:
            self._ordered = None
            return
        first = [queue for queue in self._order if queue not in queues]
        self._order = (*first, *(queue for queue in self._order if queue in queues))

    def _cut(self, request: ClaimRequest) -> ClaimRequest:
        if request.pool:
            return request
        return replace(request, room=min(request.room, max(1, self.share // request.slots)))

    def _is_below(self, pool: ClaimRequest, slots: ClaimRequest) -> bool:
        """True for a queue that also takes slots, when all that take slots alone are of higher priority."""
        priority = self._priority.get(pool.group, 0)
        return pool.slots > 0 and all(self._priority.get(queue, 0) > priority for queue in slots.queues)

    def _is_above(self, pool: ClaimRequest, slots: ClaimRequest) -> bool:
        """True for a queue that also takes slots, and is of higher priority than any that takes slots alone.

        With some of those above it and some below they take turns, as only the store knows which of them have jobs.
        """
        priority = self._priority.get(pool.group, 0)
        return pool.slots > 0 and all(self._priority.get(queue, 0) < priority for queue in slots.queues)

    def sent(self, request: ClaimRequest) -> None:
        """Note that a turn with this request is pending."""
        if request.room:
            self._turns += 1
            if request.pool:
                self._pool_at = self._turns
            else:
                self._slots_at = self._turns

    def answered(self, request: ClaimRequest, turn: Turn) -> None:
        """Note what a turn brought."""
        if turn.settings is not self._settings and turn.settings != self._settings:
            self._settings = turn.settings
            self._priority = {name: settings.priority for name, settings in turn.settings.items()}
            self._priorities = frozenset((0, *self._priority.values()))  # 0: of one that is not told yet
            self.paused = {name for name, settings in turn.settings.items() if settings.paused}
            self._ordered = None
        if turn.claimed:
            self._note_served({claimed.lease.queue for claimed in turn.claimed})
            self.round.brought()
        if len(turn.claimed) < request.room:
            self.round.had_less(request.group, turn)
        elif request.room:
            self.round.had_enough(request.group)
