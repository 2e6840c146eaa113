"""A coroutine whose result is there already is one like any other, and needs no event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

import pytest

from holdfast.core.done import Done


async def test_it_is_awaited_as_any_coroutine() -> None:
    assert await Done(7) == 7
    assert await asyncio.create_task(Done(8)) == 8
    assert await asyncio.gather(Done(1), Done(2)) == [1, 2]
    assert isinstance(Done(0), Coroutine)


def test_it_ends_with_its_result_at_its_first_step() -> None:
    assert asyncio.run(Done("x")) == "x"
    with pytest.raises(StopIteration) as ended:
        Done("y").send(None)
    assert ended.value.value == "y"


def test_it_may_be_closed_or_be_thrown_an_error() -> None:
    Done(1).close()
    with pytest.raises(KeyError, match="z"):
        Done(1).throw(KeyError("z"))
