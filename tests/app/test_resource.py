"""Resources: opened once in a process, however many ask for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from holdfast import ConfigError, Holdfast


async def test_whoever_asks_while_it_is_being_opened_waits_for_it() -> None:
    app, gate, told = Holdfast("memory://"), asyncio.Event(), []

    @app.resource
    async def pool() -> AsyncIterator[int]:
        told.append("opened")
        await gate.wait()
        yield 7
        told.append("closed")

    async def use() -> int:
        async with app.resources():
            return pool()

    first, second = asyncio.create_task(use()), asyncio.create_task(use())
    asyncio.get_running_loop().call_soon(gate.set)
    assert await asyncio.gather(first, second) == [7, 7]
    assert told[0] == "opened"
    assert told[-1] == "closed"
    with pytest.raises(ConfigError, match="not open here"):
        pool()


async def test_one_that_could_not_be_opened_can_be_tried_again() -> None:
    app, tries = Holdfast("memory://"), []

    @app.resource
    async def pool() -> AsyncIterator[int]:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("not yet")
        yield 7

    with pytest.raises(OSError, match="not yet"):
        async with app.resources():
            pass
    async with app.resources():
        assert pool() == 7
