"""A waiter that goes on within the callback which brings what it waits for."""

from __future__ import annotations

import asyncio
import gc
import weakref
from contextvars import ContextVar

import pytest

from holdfast.store.prompt import Prompt

colour: ContextVar[str] = ContextVar("colour", default="none")


async def waiting() -> tuple[Prompt[str], asyncio.Task[str], list[str]]:
    """Return what a task waits for, that task, and what it got as soon as it went on."""
    prompt: Prompt[str] = Prompt(asyncio.get_running_loop())
    got: list[str] = []

    async def wait() -> str:
        colour.set("red")
        got.append(await prompt)
        return colour.get()

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    return prompt, task, got


async def told_by_the_loop(prompt: Prompt[str], word: str, got: list[str]) -> list[str]:
    """Return what the waiter had got when `tell` returned, called by the loop as a transport calls its protocol."""
    before: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()

    def tell() -> None:
        prompt.tell(word)
        before.set_result(list(got))

    asyncio.get_running_loop().call_soon(tell)
    return await before


async def test_the_waiter_goes_on_before_tell_returns() -> None:
    prompt, task, got = await waiting()
    assert await told_by_the_loop(prompt, "here", got) == ["here"]
    assert await task == "red", "it goes on in its own context"
    assert colour.get() == "none"


async def test_a_task_that_tells_goes_on_first() -> None:
    prompt, task, got = await waiting()
    prompt.tell("here")
    assert got == []
    assert await task == "red"
    assert got == ["here"]


async def test_what_was_told_before_anybody_waits_is_there_at_once() -> None:
    prompt: Prompt[str] = Prompt(asyncio.get_running_loop())
    prompt.tell("here")
    prompt.tell("too late")
    prompt.fail(OSError("too late"))
    assert await prompt == "here"


async def test_a_failure_is_raised_in_the_waiter() -> None:
    prompt, task, _ = await waiting()
    prompt.fail(OSError("gone"))
    prompt.tell("too late")
    with pytest.raises(OSError, match="gone"):
        await task


async def test_a_waiter_can_be_cancelled_and_is_not_told_any_more() -> None:
    prompt, task, got = await waiting()
    assert task.cancel("enough")
    prompt.tell("too late")
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()
    assert got == []


async def test_a_waiter_that_was_told_is_cancelled_where_it_waits_next() -> None:
    prompt, task, got = await waiting()
    prompt.tell("here")
    assert not prompt.cancel()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert got == []


async def test_it_waits_within_time_outs() -> None:
    prompt: Prompt[str] = Prompt(asyncio.get_running_loop())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await prompt


async def test_an_error_leaves_no_cycle() -> None:
    class Gone(Exception):
        pass

    async def fail() -> weakref.ref[Gone]:
        prompt: Prompt[str] = Prompt(asyncio.get_running_loop())
        error = Gone()
        prompt.fail(error)
        try:
            await prompt
        except Gone:
            return weakref.ref(error)
        finally:
            del error
        raise AssertionError

    gc.disable()
    try:
        assert (await fail())() is None
    finally:
        gc.enable()
