"""Those who wait in a loop have one timer, and each goes on when its time is over."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.store import deadlines as deadlines_module
from holdfast.store.deadlines import FEW, LATE, Deadlines
from holdfast.store.prompt import Prompt


async def test_each_waiter_goes_on_at_its_time() -> None:
    loop = asyncio.get_running_loop()
    deadlines, over, began = Deadlines(loop), list[tuple[str, float]](), loop.time()

    async def wait(name: str, seconds: float) -> None:
        waiter: Prompt[None] = Prompt(loop)
        deadlines.add(waiter, seconds)
        await waiter
        over.append((name, loop.time() - began))

    await asyncio.gather(wait("third", 0.2), wait("first", 0.0), wait("second", 0.1))
    assert [name for name, _ in over] == ["first", "second", "third"]
    assert all(at >= least for (_, at), least in zip(over, (0.0, 0.1, 0.2), strict=True))


async def test_who_was_told_before_is_not_told_again_and_the_timer_serves_the_next() -> None:
    loop = asyncio.get_running_loop()
    deadlines, early, late = Deadlines(loop), Prompt[str | None](loop), Prompt[str | None](loop)
    deadlines.add(early, 0.05)
    early.tell("word")
    deadlines.discard(early)
    timer = deadlines._timer
    deadlines.add(late, 0.1)
    assert deadlines._timer is timer
    assert await late is None
    assert await early == "word"
    assert deadlines._timer is None


async def test_a_timer_that_comes_for_nobody_is_set_to_the_very_time_of_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deadlines_module, "LATE", 120.0)
    loop = asyncio.get_running_loop()
    deadlines, early, late = Deadlines(loop), Prompt[None](loop), Prompt[None](loop)
    deadlines.add(early, 30.0)
    deadlines.discard(early)
    deadlines.add(late, 60.0)
    deadlines._look()
    assert deadlines._timer is not None
    assert deadlines._timer.when() == deadlines._until[late]
    deadlines._timer.cancel()


async def test_those_of_many_are_looked_at_together() -> None:
    loop = asyncio.get_running_loop()
    deadlines = Deadlines(loop)
    waiters = [Prompt[None](loop) for _ in range(10 * FEW)]
    for number, waiter in enumerate(waiters):
        deadlines.add(waiter, number * LATE / len(waiters))
    looks = 0
    look = deadlines._look

    def counted() -> None:
        nonlocal looks
        looks += 1
        look()

    deadlines._look = counted  # type: ignore[method-assign]
    for waiter in waiters:
        await waiter
    assert looks <= FEW + 3


async def test_a_waiter_that_asks_for_more_time_when_it_is_told_gets_it() -> None:
    loop = asyncio.get_running_loop()
    deadlines, rounds = Deadlines(loop), 0
    for _ in range(3):
        waiter: Prompt[None] = Prompt(loop)
        deadlines.add(waiter, 0.0)
        await waiter
        rounds += 1
    assert rounds == 3
    assert not deadlines._until


async def test_a_waiter_that_asks_for_more_time_within_the_look_does_not_keep_the_next_one_waiting() -> None:
    loop = asyncio.get_running_loop()
    deadlines, next_one, began = Deadlines(loop), Prompt[None](loop), loop.time()

    async def wait_twice() -> None:
        for seconds in (0.0, 30.0):
            waiter: Prompt[None] = Prompt(loop)
            deadlines.add(waiter, seconds)
            await waiter

    twice = asyncio.create_task(wait_twice())
    await asyncio.sleep(0)
    deadlines.add(next_one, 0.01)
    await next_one
    assert loop.time() - began < 15
    twice.cancel()
