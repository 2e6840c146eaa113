"""What many ask at once goes in few calls, none of which is too large."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from holdfast.store.batching import Gather, InTurn, LoopGather, together


@pytest.mark.parametrize(
    ("sizes", "count"), [([], 0), ([1], 1), ([99], 1), ([4, 6], 2), ([4, 7], 1), ([11, 1], 1), ([1] * 30, 10)]
)
def test_as_many_go_together_as_are_not_too_large(sizes: list[int], count: int) -> None:
    assert together(sizes, lambda size: size, 10) == count


async def test_what_comes_while_a_call_is_under_way_goes_with_the_next_ones() -> None:
    calls: list[list[int]] = []

    async def work(kind: str, sizes: Sequence[int]) -> list[int]:
        calls.append(list(sizes))
        await asyncio.sleep(0)
        return [-size for size in sizes]

    gather = Gather(work, 3, lambda size: size, 10)
    sizes = [1, 2, 3, 4, 5, 6, 50, 1]
    assert await asyncio.gather(*(gather.ask("kind", size) for size in sizes)) == [-size for size in sizes]
    assert calls == [[1], [2, 3, 4], [5], [6], [50], [1]]


async def test_one_event_loop_gathers_and_others_ask_by_themselves() -> None:
    calls: list[list[int]] = []

    async def work(kind: str, questions: Sequence[int]) -> list[int]:
        calls.append(list(questions))
        await asyncio.sleep(0)
        return [-question for question in questions]

    gather = LoopGather(work, 10)

    async def ask(first: int) -> list[int]:
        return await asyncio.gather(*(gather.ask("kind", first + number) for number in range(3)))

    assert await ask(0) == [0, -1, -2]
    assert await asyncio.to_thread(lambda: asyncio.run(ask(10))) == [-10, -11, -12]
    assert calls == [[0], [1, 2], [10], [11], [12]]


def test_a_loop_that_is_closed_leaves_the_gathering_to_the_next() -> None:
    calls: list[list[int]] = []

    async def work(kind: str, questions: Sequence[int]) -> list[int]:
        calls.append(list(questions))
        await asyncio.sleep(0)
        return list(questions)

    gather = LoopGather(work, 10)

    async def ask() -> None:
        await asyncio.gather(*(gather.ask("kind", number) for number in range(3)))

    asyncio.run(ask())
    asyncio.run(ask())
    assert calls == [[0], [1, 2], [0], [1, 2]]


async def test_those_who_were_answered_together_ask_together_again() -> None:
    calls: list[list[int]] = []

    async def work(kind: str, questions: Sequence[int]) -> list[int]:
        calls.append(list(questions))
        await asyncio.sleep(0)
        return list(questions)

    gather = Gather(work, 10, lingers=True)

    async def caller(number: int) -> None:
        for _ in range(3):
            assert await gather.ask("kind", number) == number

    await asyncio.gather(*(caller(number) for number in range(4)))
    assert calls[:2] == [[0], [1, 2, 3]]
    assert sum(len(call) for call in calls) == 12
    assert len(calls) < 7
    calls.clear()
    for number in range(3):
        await gather.ask("kind", number)
    assert calls == [[0], [1], [2]]


async def test_calls_about_one_thing_are_made_in_turn_whatever_becomes_of_them() -> None:
    in_turn: InTurn[str] = InTurn()
    gates = [asyncio.Event() for _ in range(4)]
    made: list[int] = []

    async def work(number: int) -> int:
        made.append(number)
        await gates[number].wait()
        if number == 0:
            raise ValueError(number)
        return number

    calls = [asyncio.create_task(in_turn.call("a", lambda number=number: work(number))) for number in range(4)]
    other = asyncio.create_task(in_turn.call("b", lambda: work(1)))
    await asyncio.sleep(0)
    assert made == [0, 1]  # another thing waits for nobody
    calls[1].cancel()
    await asyncio.wait([calls[1]])
    assert made == [0, 1]  # nor does one that is cancelled let the next overtake
    for gate in gates:
        gate.set()
    assert [type(each) for each in await asyncio.gather(*calls, return_exceptions=True)] == [
        ValueError, asyncio.CancelledError, int, int,
    ]  # fmt: skip
    assert (made, await other) == ([0, 1, 2, 3], 1)
    assert in_turn._latest == {}
