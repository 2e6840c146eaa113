"""Two turns under way: the store works on one while the handlers of the other run."""

from __future__ import annotations

import asyncio
from typing import Any

from support import Running, burst, eventually

from holdfast import Holdfast
from holdfast.store.contract import Turn


class Slow:
    """Each turn of the app's store, seen and held up as a test likes."""

    def __init__(self, app: Holdfast) -> None:
        self.under_way = self.most = 0
        self.rooms: list[int] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self._real = app.store.settle_and_claim
        app.store.turns_at_once = 2
        app.store.settle_and_claim = self  # type: ignore[method-assign]

    async def __call__(self, session: Any, settlements: Any, queues: Any, room: int, **how: bool) -> Turn:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        self.rooms.append(room)
        try:
            await self.gate.wait()
            for _ in range(20):  # long enough for handlers that do nothing
                await asyncio.sleep(0)
            return await self._real(session, settlements, queues, room, **how)
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
        pump = running.worker._pump
        assert pump is not None
        slow.gate.clear()
        pump.call()
        await eventually(lambda: slow.under_way)
        pump.call()
        await asyncio.sleep(0)  # the pump hears of it, and cannot ask yet
        turns = len(slow.rooms)
        slow.gate.set()
        await eventually(lambda: len(slow.rooms) > turns)
        await running.end()
