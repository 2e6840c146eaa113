"""Many callers at once: they share enqueues, and each has its own result, error, time-out and end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from places import STORES, place
from support import eventually, working

from holdfast import Continued, Holdfast, HookEvent, Job, JobFailed, JobTimeout, Permanent, StoreClosed, StoreError
from holdfast.client import calls as calls_module
from holdfast.client import wait
from holdfast.store import open_store

CALLERS = 20


class Counted:
    """A store that tells how many jobs each enqueue had, and fails or is slow when it is told to."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.sizes: list[int] = []
        self.unwatched: list[str] = []
        self.error: Exception | None = None
        self.deaf = False
        self.gate: asyncio.Event | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def enqueue(self, queue: str, jobs: Any, *rest: Any) -> Any:
        self.sizes.append(len(jobs))
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        return await self._store.enqueue(queue, jobs, *rest)

    async def listen(self, on_wake: Any, on_finished: Any) -> Any:
        return await self._store.listen(on_wake, lambda finished: self.deaf or on_finished(finished))

    async def unwatch(self, listener: Any, queue: str, id: str, run: int) -> None:
        await self._store.unwatch(listener, queue, id, run)
        self.unwatched.append(id)


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with place(request.param, tmp_path) as url:
        yield url


@pytest.fixture
def store(url: str) -> Any:
    return Counted(open_store(url))


@pytest.fixture
def counted(store: Any) -> Holdfast:
    return Holdfast(store=store)


async def test_callers_share_enqueues_and_each_has_its_result(counted: Holdfast, store: Any) -> None:
    @counted.task()
    async def double(number: int) -> int:
        return 2 * number

    async def caller(first: int) -> list[int]:
        return [await double.call(number) for number in range(first, first + 5)]

    async with working(counted):
        found = await asyncio.gather(*(caller(10 * number) for number in range(CALLERS)))
        assert found == [[2 * (10 * number + each) for each in range(5)] for number in range(CALLERS)]
        assert sum(store.sizes) == 5 * CALLERS
        assert len(store.sizes) <= 3 * CALLERS  # a call of one's own each would be five times as many as callers
        assert await double.call(4) == 8
        assert not counted.registry.client._waiting._waiters


async def test_each_caller_has_its_own_error(counted: Holdfast) -> None:
    @counted.task()
    async def picky(number: int) -> int:
        if number % 2:
            raise Permanent(f"{number} is odd")
        return number

    async with working(counted):
        found = await asyncio.gather(*(picky.call(number) for number in range(CALLERS)), return_exceptions=True)
    for number, each in enumerate(found):
        if number % 2:
            assert isinstance(each, JobFailed)
            assert f"{number} is odd" in str(each)
        else:
            assert each == number


async def test_a_caller_that_waits_in_vain_is_told_its_own_time_out(counted: Holdfast, store: Any) -> None:
    gate = asyncio.Event()

    @counted.task()
    async def work(number: int) -> int:
        if number == 0:
            await gate.wait()
        return number

    async with working(counted):
        calls = [asyncio.create_task(work.call_within(0.05 if number == 0 else None, number)) for number in range(5)]
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert found[1:] == [1, 2, 3, 4]
        assert isinstance(found[0], JobTimeout)
        assert f"default/{found[0].job_id} gave no result within 0.05 s" in str(found[0])
        await eventually(lambda: store.unwatched)
        assert store.unwatched == [found[0].job_id]
        gate.set()
        assert await work.result(str(found[0].job_id)) == 0


async def test_a_caller_that_is_cancelled_leaves_the_others_alone(counted: Holdfast, store: Any) -> None:
    gate, started = asyncio.Event(), 0

    @counted.task()
    async def work(number: int) -> int:
        nonlocal started
        started += 1
        await gate.wait()
        return number

    async with working(counted):
        calls = [asyncio.create_task(work.call(number)) for number in range(5)]
        await eventually(lambda: started == 5)
        calls[3].cancel()
        with pytest.raises(asyncio.CancelledError):
            await calls[3]
        await eventually(lambda: store.unwatched)
        gate.set()
        assert await asyncio.gather(*calls[:3], calls[4]) == [0, 1, 2, 4]


async def test_of_a_caller_that_is_cancelled_before_its_answer_comes_nothing_is_left(
    counted: Holdfast, store: Any
) -> None:
    @counted.task()
    async def work(number: int) -> int:
        return number

    async with counted:
        waiting = counted.registry.client._waiting
        await counted.registry.client.listener()
        store.gate = asyncio.Event()
        calls = [asyncio.create_task(work.call(number)) for number in range(5)]
        await eventually(lambda: store.sizes)
        for call in calls[1:]:
            call.cancel()
        store.gate.set()
        await eventually(lambda: len(store.unwatched) == 4)
        assert not waiting._callers
        calls[0].cancel()
        found = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(each, asyncio.CancelledError) for each in found)


async def test_a_caller_hears_though_another_who_waits_for_its_job_gives_up(
    counted: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls_module, "POLL", 40.0)
    gate, ids = asyncio.Event(), list[str]()

    @counted.task()
    async def work(job: Job, number: int) -> int:
        ids.append(job.id)
        await gate.wait()
        return number

    async with working(counted):
        callers = [asyncio.create_task(work.call_within(None, number)) for number in range(3)]
        await eventually(lambda: len(ids) == 3)
        for id in ids:
            with pytest.raises(JobTimeout):
                await work.result(id, timeout=0.01)
        await eventually(lambda: not counted.registry.client._waiting._leaving)
        gate.set()
        assert await asyncio.wait_for(asyncio.gather(*callers), 20) == [0, 1, 2]


async def test_a_call_that_was_not_sent_when_the_app_closed_is_told_so(counted: Holdfast, store: Any) -> None:
    @counted.task()
    async def work(number: int) -> int:
        return number

    async with counted:
        await counted.registry.client.listener()
        store.gate = asyncio.Event()
        callers = [asyncio.create_task(work.call(number)) for number in range(5)]
        await eventually(lambda: store.sizes)
    callers[0].cancel()
    found = await asyncio.gather(*callers[1:], return_exceptions=True)
    assert all(isinstance(each, StoreClosed) for each in found), found
    assert not counted.sync.home.is_open


def test_a_loop_that_ended_in_the_middle_of_calls_leaves_the_next_one_free(counted: Holdfast, store: Any) -> None:
    @counted.task()
    async def work(number: int) -> int:
        return number

    async def begin() -> None:
        await counted.open()
        await counted.registry.client.listener()
        store.gate = asyncio.Event()
        tasks.append(asyncio.create_task(work.call(0)))
        await eventually(lambda: store.sizes)
        await counted.close()
        store.gate = None

    async def call() -> list[int]:
        async with working(counted):
            return await asyncio.wait_for(asyncio.gather(*(work.call(number) for number in range(5))), 20)

    tasks = list[asyncio.Task[int]]()
    loop = asyncio.new_event_loop()
    loop.run_until_complete(begin())
    loop.close()  # with nobody cancelled
    assert asyncio.run(call()) == [0, 1, 2, 3, 4]


async def test_an_enqueue_that_fails_is_told_to_all_who_shared_it(counted: Holdfast, store: Any) -> None:
    @counted.task()
    async def work() -> int:
        return 1

    async with working(counted):
        store.error = StoreError("no disk")
        found = await asyncio.gather(*(work.call() for _ in range(5)), return_exceptions=True)
        assert [str(each) for each in found] == ["no disk"] * 5
        store.error = None
        assert await asyncio.gather(*(work.call() for _ in range(5))) == [1] * 5


async def test_whose_word_is_lost_looks_by_itself(
    counted: Holdfast, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wait, "POLL", 0.05)
    store.deaf = True

    @counted.task()
    async def work(number: int) -> int:
        return number

    async with working(counted):
        assert await asyncio.gather(*(work.call(number) for number in range(CALLERS))) == list(range(CALLERS))


async def test_each_caller_waits_for_its_chain(counted: Holdfast) -> None:
    @counted.task()
    async def last(number: int) -> int:
        return -number

    @counted.task()
    async def first(job: Job, number: int) -> Continued[int]:
        return job.continue_with(last, number)

    async with working(counted):
        found = await asyncio.gather(*(first.call(number) for number in range(CALLERS)))
    assert found == [-number for number in range(CALLERS)]


async def test_hooks_hear_of_each(counted: Holdfast) -> None:
    heard: list[str | None] = []

    @counted.task()
    async def work() -> None: ...

    @counted.on("enqueue")
    def note(event: HookEvent) -> None:
        heard.append(event.id)

    async with working(counted):
        await asyncio.gather(*(work.call() for _ in range(CALLERS)))
        await eventually(lambda: len(heard) == CALLERS)
    assert len(set(heard)) == CALLERS


async def test_a_plain_queue_is_called_so_too(counted: Holdfast, store: Any) -> None:
    async def handle(payload: int) -> int:
        return payload + 1

    queue: Any = counted.queue("plain", handler=handle)
    async with working(counted, "plain"):
        assert await asyncio.gather(*(queue.call(number) for number in range(CALLERS))) == list(range(1, CALLERS + 1))
    assert len(store.sizes) < CALLERS


async def test_callers_in_threads_have_loops_of_their_own(counted: Holdfast) -> None:
    @counted.task()
    async def double(number: int) -> int:
        return 2 * number

    def in_thread(number: int) -> int:
        return asyncio.run(double.call(number))

    async with working(counted):
        elsewhere = (asyncio.to_thread(in_thread, number) for number in range(4))
        found = await asyncio.gather(*elsewhere, *(double.call(number) for number in range(4)))
    assert found == [0, 2, 4, 6] * 2


async def test_a_job_with_an_id_of_its_own_is_asked_for_by_itself(counted: Holdfast, store: Any) -> None:
    done: list[int] = []

    @counted.task()
    async def work(number: int) -> int:
        done.append(number)
        return number

    async with working(counted):
        await work.options(job_id="same").call(1)
        store.sizes.clear()
        assert await asyncio.gather(*(work.options(job_id="same").call(number) for number in range(5))) == [1] * 5
    assert store.sizes == [1] * 5
    assert done == [1]
