"""Capacity: units are conserved whatever happens, order is by priority and turn, and large tasks are not starved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import Holdfast, Sandbox
from holdfast.executor.process import frames
from holdfast.executor.process.pool import PoolOptions, ProcessPool
from holdfast.executor.process.units import UNITS, PoolUnits, UnitNeed
from holdfast.worker.turns.capacity import SLOTS, Capacity, ClaimRequest

BOX, OTHER = Sandbox(memory=1 << 28), Sandbox(memory=1 << 29)


class Fake:
    """A process that only counts."""

    def __init__(self, hello: frames.Hello, deadline: int, changed: Callable[[Any], None]) -> None:
        self.sandbox = hello.sandbox
        self.seats: dict[int, int] = {}
        self.runs: dict[int, Any] = {}
        self.started = 0
        self.usage = frames.Usage(0, 0.0)
        self.ready, self.gone, self.short_lived = True, False, False
        self.pid = 1
        self.why_unstarted = ""
        self.blocker: int | None = None
        self.is_given_up = self.ended_unasked = False
        self._changed = changed

    @property
    def used(self) -> int:
        return sum(self.seats.values())

    def reserve(self, number: int, size: int) -> None:
        self.seats[number] = size

    def vacate(self, number: int) -> None:
        self.seats.pop(number, None)
        self._changed(self)

    def run(self, number: int, order: Any) -> asyncio.Future[Any]:
        self.started += 1
        self.runs[number] = order
        return asyncio.get_running_loop().create_future()

    def stop(self, number: int, reason: str) -> None:
        self.is_given_up = True  # another is started in its place at once

    def kill(self) -> None:
        self.die()

    def die(self) -> None:
        self.gone = True
        self._changed(self)

    async def leave(self, grace: float) -> None: ...

    async def end(self, grace: float) -> None: ...


class Late:
    """What a pool notes of a run."""

    is_over_time = False
    done: Any = None


needs = st.builds(UnitNeed, st.integers(1, UNITS), st.sampled_from([None, None, BOX, OTHER]))
steps = st.lists(
    st.tuples(st.sampled_from(["sit", "finish", "timeout", "kill", "crash"]), needs, st.integers(0, 100)), max_size=60
)


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 4), steps, st.one_of(st.none(), st.integers(1, 5)))
def test_units_are_conserved_after_any_mix(
    count: int, steps: list[tuple[str, UnitNeed, int]], recycle: int | None
) -> None:
    async def play() -> None:
        pool = ProcessPool(PoolOptions(count=count, recycle_jobs=recycle), (), lambda: None, Fake)  # type: ignore[arg-type]
        seated: dict[int, UnitNeed] = {}
        for what, need, choice in steps:
            if what == "sit":
                _sit(pool, seated, need)
            elif seated:
                _end(pool, seated, what, sorted(seated)[choice % len(seated)])
            _check(pool, seated)
        for seat in list(seated):
            pool.vacate(seat)
        assert pool.units.jobs([UnitNeed(1)]) == pool.units.jobs([UnitNeed(1, BOX)]) == count * UNITS
        assert not pool._where
        await pool.close()

    asyncio.run(play())


def _sit(pool: ProcessPool, seated: dict[int, UnitNeed], need: UnitNeed) -> None:
    room = pool.units.jobs([need])
    seat = pool.reserve(need)
    assert (seat is not None) == (room > 0)
    if seat is not None:
        seated[seat] = need
        pool.run(seat, Late())  # type: ignore[arg-type]
        assert pool.units.jobs([need]) < room


def _end(pool: ProcessPool, seated: dict[int, UnitNeed], what: str, seat: int) -> None:
    process = pool._where[seat]
    if what == "timeout" and seat in process.runs:
        pool.stop(seat, "timeout")
    elif what == "kill":
        pool.kill(seat)
    elif what == "crash":
        process.die()  # type: ignore[attr-defined]
    if process.gone:
        for each in [each for each in seated if pool._where[each] is process]:
            pool.vacate(each)
            del seated[each]
    else:
        pool.vacate(seat)
        del seated[seat]


def _check(pool: ProcessPool, seated: dict[int, UnitNeed]) -> None:
    places = [place for place in pool.units.places if place is not None]
    assert all(0 <= place.used <= UNITS for place in places)
    assert all(not place.gone for place in places)
    here = [need.size for seat, need in seated.items() if pool._where[seat] in places]
    assert sum(here) == sum(place.used for place in places)
    assert all(pool._where[seat].sandbox == need.sandbox for seat, need in seated.items())
    healthy = [need.size for seat, need in seated.items() if not pool._where[seat].is_given_up]  # type: ignore[attr-defined]
    assert sum(healthy) <= len(pool.units.places) * UNITS  # those that were recycled included


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, UNITS), min_size=1, max_size=4), st.lists(st.integers(1, UNITS), min_size=1, max_size=4))
def test_as_many_jobs_fit_as_were_said_to_whatever_their_sizes(used: list[int], sizes: list[int]) -> None:
    room: PoolUnits[Any] = PoolUnits(len(used))
    for number, units in enumerate(used):
        room.places[number] = Fake(frames.Hello([], 0), 0, lambda process: None)
        room.places[number].reserve(0, units)
    wanted = [UnitNeed(size) for size in sizes]
    for number in range(room.jobs(wanted)):
        place = room.find(wanted[number % len(wanted)])
        assert place is not None
        room.places[place].reserve(number + 1, wanted[number % len(wanted)].size)


def handler() -> None:
    """What the tasks below run; none of them is started."""


@pytest.fixture
def app() -> Holdfast:
    app = Holdfast("memory://")
    for queue, options in {
        "mail": {}, "news": {}, "small": {"executor": "process", "size": 10}, "large": {"executor": "process"},
        "boxed": {"executor": "sandbox", "sandbox": BOX},
    }.items():  # fmt: skip
        app.task(queue=queue, name=queue, **options)(handler)  # type: ignore[arg-type]
    return app


def filled(app: Holdfast, *used: int) -> Capacity:
    """Return the capacity of a worker whose processes are used so far."""
    room: PoolUnits[Any] = PoolUnits(len(used))
    for number, units in enumerate(used):
        room.places[number] = Fake(frames.Hello([], 0), 0, lambda process: None)
        if units:
            room.places[number].reserve(0, units)
    return Capacity(app.registry, room)


def pool_request(queue: str, room: int, *, slots: bool = False) -> ClaimRequest:
    return ClaimRequest(queue, (queue,), room, pool=True, slots=slots)


def test_queues_that_take_slots_are_asked_together_and_each_other_by_itself(app: Holdfast) -> None:
    capacity, order = filled(app, 0, 50), ["small", "news", "large", "mail", "boxed"]
    small, slots = pool_request("small", 15), ClaimRequest(SLOTS, ("news", "mail"), 3)
    assert capacity.requests(order, 3) == [small, slots, pool_request("large", 1), pool_request("boxed", 1)]
    assert capacity.requests(order, 3, {"small", SLOTS}.__contains__) == [
        pool_request("large", 1),
        pool_request("boxed", 1),
    ]
    assert capacity.requests(order, 3, {"small", SLOTS, "large", "boxed"}.__contains__) == []
    assert capacity.requests(["news", "large"], 0, {"large"}.__contains__) == []


def test_a_large_task_has_room_kept_from_the_small_ones_behind_it(app: Holdfast) -> None:
    capacity = filled(app, 60, 40)
    assert capacity.blocked(["large", "small"], 1) == ["large"]
    assert capacity.blocked(["small", "large"], 1) == []  # nobody behind it would take the room
    assert capacity.requests(["large", "small"], 1) == [pool_request("small", 10)]
    assert capacity.requests(["large", "small"], 1, hungry=["large"]) == [
        pool_request("small", 4)
    ]  # the emptier is kept
    assert filled(app, 60).requests(["large", "small"], 1, hungry=["large"]) == []
    assert filled(app, 0).requests(["large", "small"], 1, hungry=["large"]) == [
        pool_request("large", 1),
        pool_request("small", 10),
    ]


def test_jobs_that_take_several_slots_are_asked_for_by_themselves_and_as_many_as_fit(app: Holdfast) -> None:
    app.task(queue="wide", name="wide", size=3)(handler)
    capacity, wide = filled(app, 0), ClaimRequest("wide", ("wide",), 2, slots=3)
    assert (wide.kept, capacity.requests(["wide", "mail"], 8)) == (6, [wide, ClaimRequest(SLOTS, ("mail",), 8)])
    assert capacity.requests(["mail", "wide", "news"], 2) == [ClaimRequest(SLOTS, ("mail", "news"), 2)]
    # what is behind the larger ones waits for its turn, and a part of the group has a name of its own
    assert capacity.requests(["mail", "wide", "news"], 8) == [ClaimRequest("mail", ("mail",), 8), wide]
    assert capacity.requests(["wide", "mail", "news"], 8, {"wide"}.__contains__) == [
        ClaimRequest(SLOTS, ("mail", "news"), 8)
    ]
    assert (capacity.cut(wide, 5).room, capacity.cut(wide, 2).room) == (1, 0)
    app.task(queue="wide", name="narrow")(handler)
    assert capacity.requests(["wide"], 8) == [wide], "whichever comes next can start"


def test_jobs_that_take_several_slots_have_them_kept_from_those_behind_them(app: Holdfast) -> None:
    app.task(queue="wide", name="wide", size=3)(handler)
    capacity, wide = filled(app, 60), ClaimRequest("wide", ("wide",), 1, slots=3)
    assert capacity.blocked(["mail", "wide", "news", "small"], 2) == ["wide"]
    assert capacity.blocked(["wide", "mail"], 0) == ["wide"]  # or each slot would go to the others as it becomes free
    assert capacity.blocked(["mail", "wide"], 2) == []
    assert capacity.blocked(["wide", "mail"], 3) == []
    hungry = ["wide"]
    assert capacity.requests(["mail", "wide", "news", "small"], 2, hungry=hungry) == [
        ClaimRequest(SLOTS, ("mail",), 2), pool_request("small", 4),
    ]  # fmt: skip
    assert capacity.requests(["wide", "mail"], 2, hungry=hungry) == []
    assert capacity.requests(["wide", "mail"], 3, hungry=hungry) == [wide, ClaimRequest(SLOTS, ("mail",), 3)]


def test_a_queue_of_several_tasks_is_asked_only_when_any_of_them_could_start(app: Holdfast) -> None:
    for name, options in {"light": {"executor": "process", "size": 10}, "heavy": {"executor": "process"}}.items():
        app.task(queue="mixed", name=name, **options)(handler)  # type: ignore[arg-type]
    assert filled(app, 0, 50).requests(["mixed"], 5) == [pool_request("mixed", 1)]
    assert filled(app, 50).requests(["mixed"], 5) == []
    app.task(queue="mixed", name="inline")(handler)
    assert filled(app, 0).requests(["mixed"], 0) == []
    app.task(queue="mixed", name="box", executor="sandbox", sandbox=OTHER)(handler)
    assert filled(app, 0, 10).requests(["mixed"], 5) == [
        pool_request("mixed", 1, slots=True)
    ]  # each may be of another kind


def test_a_queue_whose_tasks_are_unknown_takes_slots(app: Holdfast) -> None:
    assert filled(app, 0).requests(["elsewhere"], 2) == [ClaimRequest(SLOTS, ("elsewhere",), 2)]
