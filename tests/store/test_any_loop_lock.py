"""A lock that coroutines of several event loops hold in turn."""

from __future__ import annotations

import asyncio
import threading

import pytest
from support import eventually

from holdfast.store.any_loop_lock import AnyLoopLock


async def test_who_waits_in_one_loop_goes_on_when_another_lets_go() -> None:
    lock, held, let_go = AnyLoopLock(), threading.Event(), threading.Event()

    async def hold() -> None:
        async with lock:
            held.set()
            await asyncio.to_thread(let_go.wait)

    other = threading.Thread(target=lambda: asyncio.run(hold()))
    other.start()
    await asyncio.to_thread(held.wait)
    waiting = [asyncio.create_task(lock.__aenter__()) for _ in range(2)]
    await eventually(lambda: len(lock._waiting) == 2)
    let_go.set()
    await asyncio.wait_for(waiting[0], 20)
    assert not waiting[1].done()
    await lock.__aexit__()
    await asyncio.wait_for(waiting[1], 20)
    other.join()


@pytest.mark.parametrize("when", ["while it waits", "when its turn has come"])
async def test_who_is_cancelled_lets_the_next_one_in(when: str) -> None:
    lock = AnyLoopLock()
    await lock.__aenter__()
    first, second = asyncio.create_task(lock.__aenter__()), asyncio.create_task(lock.__aenter__())
    await eventually(lambda: len(lock._waiting) == 2)
    if when == "while it waits":
        first.cancel()
        await asyncio.wait([first])
        await lock.__aexit__()
    else:
        await lock.__aexit__()
        first.cancel()
    await asyncio.wait_for(second, 20)
    assert first.cancelled()


async def test_one_whose_loop_has_ended_is_passed_over() -> None:
    lock = AnyLoopLock()
    await lock.__aenter__()
    loop = asyncio.new_event_loop()
    gone = loop.create_task(lock.__aenter__())
    await asyncio.to_thread(lambda: (loop.call_later(0, loop.stop), loop.run_forever(), loop.close()))
    assert len(lock._waiting) == 1
    waiting = asyncio.create_task(lock.__aenter__())
    await eventually(lambda: len(lock._waiting) == 2)
    await lock.__aexit__()
    await asyncio.wait_for(waiting, 20)
    gone._log_destroy_pending = False  # type: ignore[attr-defined]
