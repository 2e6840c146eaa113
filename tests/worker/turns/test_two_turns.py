"""Two turns under way: the store works on one while the handlers of the other run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support import Running, burst, eventually, recorded_pauses, working

from holdfast import Holdfast, StoreError
from holdfast.store.contract import Turn
from holdfast.worker.recovery import FIRST_PAUSE


class Slow:
    """Each turn of the app's store, seen and held up as a test likes."""

    def __init__(self, app: Holdfast, at_once: int = 2) -> None:
        self.under_way = self.most = 0
        self.rooms: list[int] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.lost: set[int] = set()
        """The numbers of the turns whose replies are lost."""
        self._real = app.store.settle_and_claim
        app.store.turns_at_once = at_once
        app.store.settle_and_claim = self  # type: ignore[method-assign]

    async def __call__(self, session: Any, settlements: Any, queues: Any, room: int, **how: bool) -> Turn:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        self.rooms.append(room)
        number = len(self.rooms)
        try:
            await self.gate.wait()
            for _ in range(20):  # long enough for handlers that do nothing
                await asyncio.sleep(0)
            turn = await self._real(session, settlements, queues, room, **how)
            if number in self.lost:
                raise StoreError("the connection broke before the reply came")
            return turn
        finally:
            self.under_way -= 1


async def test_a_loaded_worker_has_two_turns_under_way_and_never_more_handlers_than_slots(app: Holdfast) -> None:
    now = most = 0

    @app.task()
    async def busy() -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1

    slow = Slow(app)
    async with app:
        await busy.enqueue_many(busy.args() for _ in range(200))
        report = await burst(app, slots=10)
    assert (report.started, report.completed, report.lost) == (200, 200, 0)
    assert slow.most == 2
    assert max(slow.rooms) == 5
    assert most <= 10


async def test_a_worker_that_is_not_loaded_has_one_turn_under_way(app: Holdfast) -> None:
    @app.task()
    async def ping() -> None: ...

    slow = Slow(app)
    async with app:
        for _ in range(5):
            await ping.enqueue()
            await burst(app, slots=10)
    assert slow.most == 1


async def test_a_wake_up_that_comes_while_a_turn_is_under_way_is_followed(app: Holdfast) -> None:
    """Without it, what it announced would wait for the poll."""

    @app.task()
    async def ping() -> None: ...

    slow = Slow(app)
    async with app:
        running = Running(app.worker(slots=10, poll=3600))
        await eventually(lambda: slow.rooms and not slow.under_way)
        assert running.worker._run is not None
        pump = running.worker._run.parts.pump
        slow.gate.clear()
        pump.on_wake_up()
        await eventually(lambda: slow.under_way)
        pump.on_wake_up()
        await asyncio.sleep(0)  # the pump hears of it, and cannot ask yet
        turns = len(slow.rooms)
        slow.gate.set()
        await eventually(lambda: len(slow.rooms) > turns)
        await running.end()


@pytest.mark.parametrize("lost", [(1, 2, 3, 4), (1, 2, 3), (2, 4), (1,), (4,)])
async def test_turns_that_are_lost_together_cost_one_short_pause(app: Holdfast, lost: tuple[int, ...]) -> None:
    """With a pause for each, and each twice as long, their jobs were held for seconds with no handler at work."""
    ran: list[int] = []

    @app.task()
    async def work(number: int) -> None:
        ran.append(number)
        if len(ran) == 10:
            slow.gate.clear()
        await asyncio.sleep(0)  # handlers that do not wait are started by two larger turns

    slow = Slow(app, at_once=4)
    async with working(app, slots=4) as running:
        paused = recorded_pauses(running)
        await work.enqueue_many(work.args(number) for number in range(40))
        await eventually(lambda: len(ran) >= 10 and slow.under_way == 4, "four turns are under way")
        slow.lost = {len(slow.rooms) - 4 + number for number in lost}
        slow.gate.set()
        await eventually(lambda: len(ran) == 40, "every job runs")
    assert sorted(ran) == list(range(40)), "none runs twice"
    assert len(paused) == 1
    assert paused[0] <= FIRST_PAUSE


@pytest.mark.parametrize(("waits", "most"), [(True, 4), (False, 2)])
async def test_handlers_that_do_not_wait_are_claimed_for_in_two_turns(app: Holdfast, waits: bool, most: int) -> None:
    ran = 0

    @app.task()
    async def work() -> None:
        nonlocal ran
        ran += 1
        if waits:
            await asyncio.sleep(0)

    slow = Slow(app, at_once=4)
    async with app:
        await work.enqueue_many(work.args() for _ in range(200))
        await burst(app, slots=8)
    assert ran == 200
    assert slow.most == most
