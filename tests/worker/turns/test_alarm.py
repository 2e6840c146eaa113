"""The bell of a pump: it wakes one sleeper, now or when it is let go."""

from __future__ import annotations

import asyncio

from holdfast.worker.turns.wakeups import Alarm


async def sleeping(alarm: Alarm, seconds: float | None = None) -> asyncio.Task[bool]:
    """Return a task that sleeps until it is rung."""
    task = asyncio.create_task(alarm.wait(seconds))
    await asyncio.sleep(0)
    return task


async def test_a_bell_that_was_rung_before_wakes_the_next_sleeper_once() -> None:
    alarm = Alarm()
    alarm.ring()
    alarm.ring()
    assert await alarm.wait()
    assert not await alarm.wait(0)


async def test_a_sleeper_wakes_when_it_is_rung_or_when_its_time_is_over() -> None:
    alarm = Alarm()
    task = await sleeping(alarm, 60)
    alarm.ring()
    assert await task
    assert not await (await sleeping(alarm, 0.01))
    again = await sleeping(alarm)
    alarm.ring()
    assert await again


async def test_a_sleeper_goes_on_within_the_call_that_lets_the_bell_go() -> None:
    alarm, loop, woken = Alarm(), asyncio.get_running_loop(), asyncio.Event()

    async def sleep() -> None:
        await alarm.wait()
        woken.set()

    seen: list[bool] = []

    def callback() -> None:
        assert alarm.hold()
        assert not alarm.hold()  # whoever held it first lets it go
        alarm.ring()
        seen.append(woken.is_set())
        alarm.let_go()
        seen.append(woken.is_set())

    task = asyncio.create_task(sleep())
    await asyncio.sleep(0)
    loop.call_soon(callback)
    await task
    assert seen == [False, True]


async def test_a_bell_that_is_let_go_without_a_ring_wakes_nobody() -> None:
    alarm = Alarm()
    task = await sleeping(alarm, 60)
    assert alarm.hold()
    alarm.let_go()
    await asyncio.sleep(0)
    assert not task.done()
    task.cancel()
    assert await asyncio.gather(task, return_exceptions=True)


def test_a_bell_serves_one_loop_after_the_other() -> None:
    alarm = Alarm()
    for _ in range(2):
        assert not asyncio.run(alarm.wait(0.0))
