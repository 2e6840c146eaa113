"""Handlers that do not wait share a task; whatever they do, none of them notices."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import pytest
from support import burst, eventually, working

from holdfast import Handle, Holdfast, Job, Retry, State, current_job
from holdfast.telemetry.observer import Ended, Observer
from holdfast.worker.attempts import first_step, shared_task
from holdfast.worker.attempts.attempt import Attempt
from holdfast.worker.attempts.shared_task import AttemptTasks

word: ContextVar[str] = ContextVar("word", default="")
thing: ContextVar[object] = ContextVar("thing")
QUICK = Retry(initial=0.01)


def task_here() -> asyncio.Task[Any]:
    found = asyncio.current_task()
    assert found is not None
    return found


async def test_handlers_that_do_not_wait_share_a_task_and_no_context(app: Holdfast) -> None:
    tasks: set[asyncio.Task[Any]] = set()
    words: list[str] = []

    @app.task()
    async def note(number: int) -> str:
        words.append(word.get())
        word.set(f"word {number}")
        tasks.add(task_here())
        found = current_job()
        assert found is not None
        return found.id

    async with app:
        handles = [await note.enqueue(number) for number in range(10)]
        await burst(app, slots=10)
        assert [await handle.result() for handle in handles] == [handle.id for handle in handles]
    assert words == [""] * 10
    assert len(tasks) == 1


async def test_a_handler_that_waits_keeps_its_task_and_holds_up_no_other(app: Holdfast) -> None:
    gate = asyncio.Event()
    tasks: list[asyncio.Task[Any]] = []
    seen: list[tuple[int, str, str | None]] = []

    @app.task()
    async def work(number: int) -> None:
        word.set(f"word {number}")
        tasks.append(task_here())
        if number in (1, 2):
            await gate.wait()
        assert task_here() is tasks[number]
        job = current_job()
        seen.append((number, word.get(), job and job.id))

    async with app:
        ids = [(await work.enqueue(number)).id for number in range(5)]
        async with working(app, slots=10):
            await eventually(lambda: len(seen) == 3)
            gate.set()
            await eventually(lambda: len(seen) == 5)
    assert sorted(seen) == [(number, f"word {number}", id) for number, id in enumerate(ids)]
    assert tasks[0] is tasks[1]  # which it kept, when it waited
    assert len(set(tasks)) == 4


async def test_handlers_start_in_the_order_of_their_jobs_whether_they_wait_or_not(app: Holdfast) -> None:
    begun: list[int] = []

    @app.task()
    async def waits(number: int) -> None:
        begun.append(number)
        await asyncio.sleep(0)

    @app.task()
    async def returns(number: int) -> None:
        begun.append(number)

    async with app:
        for number in range(40):
            await (waits if number % 4 else returns).enqueue(number)
        await burst(app, slots=5)
        del begun[:5]  # of the first turn, before it was known who waits
        for number in range(40, 80):
            await (waits if number % 4 else returns).enqueue(number)
        await burst(app, slots=5)
    assert begun[:35] == list(range(5, 40))


async def test_a_handler_that_cancels_its_own_task_cancels_no_other(app: Holdfast) -> None:
    done: list[int] = []

    @app.task()
    async def work(number: int) -> None:
        if number == 1:
            task_here().cancel()
        elif number == 2:
            await asyncio.sleep(0)
        done.append(number)

    async with app:
        for number in range(4):
            await work.enqueue(number)
        report = await burst(app, slots=10)
    assert sorted(done) == [0, 1, 2, 3]
    assert report.completed == 4


async def test_the_task_of_handlers_that_did_not_wait_is_kept_for_the_next(app: Holdfast) -> None:
    tasks: list[asyncio.Task[Any]] = []
    left: list[weakref.ref[Any]] = []

    @app.task()
    async def work(waits: bool) -> None:
        tasks.append(task_here())
        thing.set({"in the context of this job"})
        left.append(weakref.ref(thing.get()))
        if waits:
            await asyncio.sleep(0)

    async with working(app):
        for _ in range(3):
            await work.call(False)
        assert len(set(tasks)) == 1
        gc.collect()
        assert [each() for each in left] == [None] * 3  # what is kept is the task alone
        await work.call(True)
    assert all(task.done() for task in tasks)


async def test_a_kept_task_that_somebody_cancels_takes_no_job_with_it(app: Holdfast) -> None:
    tasks: list[asyncio.Task[Any]] = []

    @app.task()
    async def work(number: int) -> int:
        tasks.append(task_here())
        return number

    async with working(app):
        for number in range(4):
            assert await work.call(number) == number
            tasks[-1].cancel()
    assert len(set(tasks)) == 4


async def test_a_kept_task_that_somebody_cancels_before_it_goes_on_takes_no_job_with_it(
    app: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks: list[asyncio.Task[Any]] = []
    share = AttemptTasks._share

    def share_and_cancel(self: AttemptTasks, *args: Any) -> None:
        share(self, *args)
        for task in tasks[-1:]:
            task.cancel()

    monkeypatch.setattr(AttemptTasks, "_share", share_and_cancel)

    @app.task()
    async def work(number: int) -> int:
        tasks.append(task_here())
        return number

    async with app:
        handles = [await work.enqueue(number) for number in range(4)]
        await burst(app, slots=1)
        assert [await handle.result() for handle in handles] == [0, 1, 2, 3]


async def test_the_time_out_of_a_handler_that_shares_a_task_counts_from_its_start(app: Holdfast) -> None:
    starts: list[int] = []

    @app.task(timeout=0.05, retry=Retry(timeouts=1, failures=1, initial=0.0))
    async def work(number: int) -> None:
        starts.append(number)
        if number == 1:
            await asyncio.Event().wait()

    async with app:
        handles = [await work.enqueue(number) for number in range(3)]
        report = await burst(app, slots=10)
        record = await handles[1].job()
    assert report.completed == 2
    assert (record.state, record.counters.timeouts) == (State.FAILED, 1)
    assert starts == [0, 1, 2]


async def test_a_job_that_waits_in_a_shared_task_is_cancelled_alone(app: Holdfast) -> None:
    begun: list[str] = []

    @app.task(retry=QUICK)
    async def work(job: Job, waits: bool) -> None:
        begun.append(job.id)
        if waits:
            await job.signal.wait()
            job.signal.check()

    async with app:
        plain, waiting, behind = [await work.enqueue(waits) for waits in (False, True, True)]
        async with working(app, slots=10):
            await eventually(lambda: len(begun) == 3)
            await waiting.cancel(running="signal")
            assert await eventually(lambda: is_in(waiting, State.CANCELLED))
            assert await is_in(behind, State.ACTIVE)
            await behind.cancel(running="signal")
            assert await eventually(lambda: is_in(behind, State.CANCELLED))
        assert await is_in(plain, State.COMPLETED)


async def is_in(handle: Handle[None], state: State) -> bool:
    return (await handle.job()).state is state


@contextmanager
def told_before_they_begin(monkeypatch: pytest.MonkeyPatch, tell: Any) -> Iterator[None]:
    """Attempts hear something after they got their slots, and before their tasks had a step."""
    start = AttemptTasks.start

    def late(self: AttemptTasks, attempts: list[Attempt], *how: Any) -> None:
        start(self, attempts, *how)
        for attempt in attempts:
            tell(attempt)

    with monkeypatch.context() as patched:
        patched.setattr(AttemptTasks, "start", late)
        yield


@pytest.mark.parametrize("jobs", [1, 2], ids=["in its own task", "in a shared one"])
async def test_a_handler_that_is_given_up_before_it_began_never_runs(
    app: Holdfast, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    begun: list[int] = []

    @app.task(retry=QUICK)
    async def work(number: int) -> None:
        begun.append(number)
        await asyncio.sleep(0)

    async with app, working(app, slots=10) as running:
        with told_before_they_begin(monkeypatch, lambda attempt: attempt.abort("lease_lost")):
            await work.enqueue_many(work.args(number) for number in range(jobs))
            parts = running.worker._run.parts  # type: ignore[union-attr]
            await eventually(lambda: parts.outcomes.report.lost == jobs)
        assert not parts.runner.running
    assert begun == []


async def test_attempts_that_waited_need_no_garbage_collector(app: Holdfast) -> None:
    jobs: list[weakref.ref[Any]] = []

    @app.task(timeout=0.01, retry=Retry(timeouts=1, initial=0.0))
    async def work(number: int) -> None:
        jobs.append(weakref.ref(task_here()))
        if number == 2:
            await asyncio.Event().wait()  # until its time is over
        await asyncio.sleep(0)

    async with app:
        for number in range(4):
            await work.enqueue(number)
        gc.collect()
        gc.disable()
        try:
            await burst(app)
            await asyncio.sleep(0)
            assert [ref() for ref in jobs] == [None] * 4
        finally:
            gc.enable()


async def test_each_has_its_own_time_where_several_end_together(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    for module in (first_step, shared_task):
        monkeypatch.setattr(module, "monotonic", lambda: clock[0])
    app, heard = Holdfast("memory://"), list[list[float | None]]()

    class Listener(Observer):
        def settled(self, ended: Sequence[Ended]) -> None:
            heard.append([each.ran for each in ended])

    @app.task(queue="q")
    async def takes(seconds: float) -> None:
        clock[0] += seconds

    async with app:
        await takes.enqueue_many(takes.args(seconds) for seconds in (1.0, 2.0, 4.0))
        assert (await app.worker(observers=[Listener()]).run(burst=True)).completed == 3
    assert heard == [[1.0, 2.0, 4.0]]
