"""The choice of the next group: each that has jobs and room is asked within a bounded number of turns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from random import Random
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from test_capacity import Fake, handler

from holdfast import Holdfast
from holdfast.core.bound import FEW_QUEUES
from holdfast.core.limit import QueueSettings
from holdfast.executor.process import frames
from holdfast.executor.process.units import PoolUnits, UnitNeed
from holdfast.store.contract import Turn
from holdfast.worker.turns.capacity import SLOTS, Capacity
from holdfast.worker.turns.choice import NOTHING, ClaimChoice, ClaimRound, PendingTurn, PendingTurns

QUEUES: dict[str, list[dict[str, Any]]] = {
    "mail": [{}],
    "news": [{}],
    "tiny": [{"executor": "process", "size": 10}],
    "half": [{"executor": "process", "size": 50}],
    "whole": [{"executor": "process"}],
    "mixed": [{}, {"executor": "process", "size": 30}],
    "wide": [{"size": 3}],
}
WIDE = 3
MOST = 25
"""Turns of others in a row. A group that had nothing is passed over for ten of them that bring something."""


class Leased(msgspec.Struct):
    queue: str


class Taken(msgspec.Struct):
    lease: Leased


class Model:
    """A worker with a store that only count: turns under way, jobs that wait, and jobs that run."""

    def __init__(self, slots: int, pool: int, at_once: int, priority: dict[str, int]) -> None:
        app = Holdfast("memory://")
        for queue, tasks in QUEUES.items():
            for number, options in enumerate(tasks):
                app.task(queue=queue, name=f"{queue}-{number}", **options)(handler)
        self.room: PoolUnits[Any] = PoolUnits(pool)
        self.pending = PendingTurns()
        self.choice = ClaimChoice(Capacity(app.registry, self.room), self.pending, ClaimRound(), -(-slots // at_once))
        self.waiting = Counter[str]()
        self.passed = Counter[str]()
        """How often in a row somebody else was asked, while the group had a job that could have started."""
        self.running: list[tuple[int, Fake | None, int]] = []
        """The seat of each job, its process, and the slots that it takes."""
        self.starved = Counter[str]()
        """How many turns in a row have brought jobs for the slots, but none of the queue, which had some."""
        self._seats = count(1)
        self._slots, self._at_once = slots, at_once
        self._settings = {queue: QueueSettings(priority=priority[queue]) for queue in QUEUES}
        self._under_way: list[PendingTurn] = []

    @property
    def free(self) -> int:
        return self._slots - sum(slots for _, _, slots in self.running)

    def ask(self) -> None:
        """One more turn is under way, if there is anything to ask and nobody under way to wait for."""
        if len(self._under_way) == self._at_once:
            return self.land()
        ask = self.choice.request(list(QUEUES), self.free)
        if not ask.room and not self._under_way:
            self.choice.round.begin()  # as before a sleep
            ask = self.choice.request(list(QUEUES), self.free)
            assert ask.room or not self.able(), "somebody who could start is asked before the worker sleeps"
        if not ask.room:
            return self.land()
        self._note(ask.group)
        turn = PendingTurn([], ask, alone=False)
        self._under_way.append(turn)
        self.pending.add(turn)
        return self.choice.sent(ask)

    def _note(self, group: str) -> None:
        for each in self.able():
            self.passed[each] += each != group
        self.passed[group] = 0

    def able(self) -> set[str]:
        """Return the groups with a job that waits and could start now."""
        free = self.free - self.pending.slots
        asks = self.choice.capacity.requests(self.choice.order(list(QUEUES)), free, hungry=self.choice.round.hungry)
        flying = {turn.request.group for turn in self._under_way}
        busy = self.pending.pool
        return {
            ask.group
            for ask in asks
            if any(self.waiting[queue] for queue in ask.queues) and ask.group not in flying and not (busy and ask.pool)
        }

    def land(self) -> None:
        """The oldest turn brings what it finds."""
        if not self._under_way:
            return
        turn = self._under_way.pop(0)
        self.pending.remove(turn)
        claimed = [queue for queue in turn.request.queues for _ in range(self.waiting[queue])][: turn.request.room]
        for queue in claimed:
            self._start(queue)
        for queue in ("mail", "wide") if {*claimed} & {"mail", "news", "wide"} else ():
            self.starved[queue] = 0 if queue in claimed or not self.waiting[queue] else self.starved[queue] + 1
        jobs: Any = [Taken(Leased(queue)) for queue in claimed]
        self.choice.answered(turn.request, Turn(claimed=jobs, settings=self._settings))
        blocked = self.choice.capacity.blocked(self.choice.order(list(QUEUES)), self.free)
        self.choice.round.hungry = [queue for queue in blocked if self.waiting[queue]]

    def _start(self, queue: str) -> None:
        self.waiting[queue] -= 1
        sizes = [task.get("size", 100) for task in QUEUES[queue] if "executor" in task]
        seat = next(self._seats)
        if not sizes or (queue == "mixed" and seat % 2):
            slots = WIDE if queue == "wide" else 1
            assert self.free >= slots
            self.running.append((seat, None, slots))
            return
        number = self.room.find(UnitNeed(sizes[0]))
        assert number is not None
        if self.room.places[number] is None:
            self.room.places[number] = Fake(frames.Hello([], 0), 0, lambda process: None)
        place = self.room.places[number]
        place.reserve(seat, sizes[0])
        self.running.append((seat, place, 0))

    def finish(self, choice: int) -> None:
        """One of the running jobs ends."""
        if self.running:
            seat, place, _ = self.running.pop(choice % len(self.running))
            if place is not None:
                place.vacate(seat)


def _play(model: Model, backlog: Sequence[str], random: Random) -> Iterator[None]:
    """Let a backlog never end, while things happen in any order."""
    for what in random.choices(["ask", "land", "finish", "enqueue"], [6, 2, 4, 1], k=300):
        for queue in backlog:
            model.waiting[queue] = max(model.waiting[queue], 20)
        if what == "enqueue":
            model.waiting[random.choice(sorted(QUEUES))] += 1
        elif what == "finish":
            for _ in range(random.randrange(5)):
                model.finish(random.randrange(100))
        else:
            model.ask() if what == "ask" else model.land()
        yield


@settings(max_examples=100, deadline=None)
@given(
    st.integers(WIDE, 8), st.integers(1, 3), st.integers(1, 4),
    st.sets(st.sampled_from(sorted(QUEUES))), st.integers(),
)  # fmt: skip
def test_every_group_with_jobs_and_room_is_asked_within_a_bounded_number_of_turns(
    slots: int, pool: int, at_once: int, backlog: set[str], seed: int
) -> None:
    model = Model(slots, pool, at_once, dict.fromkeys(QUEUES, 0))
    for _ in _play(model, sorted(backlog), Random(seed)):
        assert max(model.passed.values(), default=0) <= MOST, model.passed


@settings(max_examples=100, deadline=None)
@given(
    st.integers(WIDE, 8), st.integers(1, 3), st.integers(1, 4), st.lists(st.integers(-1, 1), min_size=7, max_size=7),
    st.integers(),
)  # fmt: skip
def test_slots_and_pool_never_wait_for_each_other_whatever_the_priorities(
    slots: int, pool: int, at_once: int, priorities: list[int], seed: int
) -> None:
    model = Model(slots, pool, at_once, dict(zip(QUEUES, priorities, strict=True)))
    for _ in _play(model, ("mail", "tiny"), Random(seed)):
        assert model.passed[SLOTS] <= MOST
        assert model.passed["tiny"] <= 2 * MOST  # others of the pool may be of higher priority, and have a job at times


@settings(max_examples=100, deadline=None)
@given(
    st.integers(WIDE, 8), st.integers(1, 4), st.lists(st.integers(-1, 0), min_size=2, max_size=2),
    st.sets(st.sampled_from(["mail", "news"]), min_size=1), st.integers(),
)  # fmt: skip
def test_large_jobs_and_small_ones_leave_each_other_slots(
    slots: int, at_once: int, priorities: list[int], backlog: set[str], seed: int
) -> None:
    """Queues of a lower priority than others with a backlog have no claim, and are not looked at."""
    priority = {**dict.fromkeys(QUEUES, 0), "news": priorities[0], "tiny": priorities[1]}
    model = Model(slots, 1, at_once, priority)
    for _ in _play(model, ["wide", *sorted(backlog)], Random(seed)):
        assert model.starved["wide"] <= MOST, "small ones do not take every slot as it becomes free"
        assert model.starved["mail"] <= MOST, "and large ones do not keep them for ever"


def order_at(place: float, queues: tuple[str, ...], **priority: int) -> Sequence[str]:
    capacity = Capacity(Holdfast("memory://").registry, PoolUnits(0))
    choice = ClaimChoice(capacity, PendingTurns(), ClaimRound(), 10, place=place)
    settings = {name: QueueSettings(priority=rank) for name, rank in priority.items()}
    choice.answered(NOTHING, Turn(settings=settings))
    return choice.order(queues)


def test_workers_of_many_queues_begin_with_different_ones() -> None:
    queues = tuple(f"q{number}" for number in range(FEW_QUEUES + 4))
    assert order_at(0, queues) == queues
    assert order_at(0.5, queues) == (*queues[10:], *queues[:10])
    assert order_at(0.5, queues, q3=1)[:2] == ("q3", "q10"), "whatever has a priority comes first all the same"


def test_a_worker_of_few_queues_begins_with_the_first() -> None:
    queues = tuple(f"q{number}" for number in range(FEW_QUEUES))
    assert order_at(0.5, queues) == queues
