"""The worker: slots, handlers of both kinds, retries, and how each attempt ends."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import weakref
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support import PATIENCE, Running, burst, eventually, transitions, working

from holdfast import (
    Aborted,
    ConfigError,
    Counters,
    Holdfast,
    HookEvent,
    Job,
    JobFailed,
    LeaseLost,
    Permanent,
    PolicyConflict,
    Progress,
    QueueSettings,
    Reply,
    Retry,
    Snooze,
    State,
    current_job,
)
from holdfast.worker import Report

QUICK = Retry(initial=0.01)


# --- what is over is gone


async def test_attempts_that_are_over_need_no_garbage_collector(app: Holdfast) -> None:
    """A cycle for each job was a seventh of a worker's time."""
    jobs: list[weakref.ref[Any]] = []

    @app.task(retry=Retry(failures=2, initial=0.0))
    async def note(fails: bool) -> None:
        running = asyncio.current_task()
        assert running is not None
        jobs.append(weakref.ref(running))
        if fails:
            raise ValueError("no")

    async with app:
        await note.enqueue_many(note.args(number % 2 == 0) for number in range(10))
        gc.collect()
        gc.disable()
        try:
            await burst(app)
            assert [each() for each in jobs] == [None] * 15
        finally:
            gc.enable()


# --- slots


async def test_slots_are_never_exceeded_and_nothing_is_claimed_that_cannot_start(app: Holdfast) -> None:
    gate = asyncio.Event()
    running = most = 0

    @app.task()
    async def wait() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await gate.wait()
        running -= 1

    async with working(app, slots=3):
        await wait.enqueue_many(wait.args() for _ in range(20))
        await eventually(lambda: running == 3)
        info = await app.queue("default").info()
        assert info is not None
        assert (info.counts["active"], info.counts["waiting"]) == (3, 17)
        gate.set()
        await eventually(lambda: _is_empty(app))
    assert most == 3


async def test_slots_hold_for_def_handlers_too(app: Holdfast) -> None:
    lock = threading.Lock()
    together = threading.Barrier(4)
    running = most = 0

    @app.task()
    def work() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        together.wait(PATIENCE)
        with lock:
            running -= 1

    async with app:
        await work.enqueue_many(work.args() for _ in range(60))
        report = await burst(app, slots=4)
    assert report.completed == 60
    assert most == 4


async def test_a_def_handler_runs_in_a_thread_and_an_async_one_in_the_loop(app: Holdfast) -> None:
    here = threading.get_ident()

    @app.task()
    def plain() -> bool:
        return threading.get_ident() == here

    @app.task()
    async def coroutine() -> bool:
        return threading.get_ident() == here

    @app.task(executor="inline")
    def inline() -> bool:
        return threading.get_ident() == here

    @app.task(executor="thread")
    async def threaded() -> bool:
        await asyncio.sleep(0)
        return threading.get_ident() == here

    async with working(app):
        assert [await task.call() for task in (plain, coroutine, inline, threaded)] == [False, True, True, False]


async def test_a_coroutine_in_a_thread_of_its_own_calls_other_jobs(
    app: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits in another event loop than the app's, and is told of the end there, without a poll."""
    monkeypatch.setattr("holdfast.client.wait.POLL", 300.0)
    go = asyncio.Event()

    @app.task()
    async def double(n: int) -> int:
        await go.wait()
        return n * 2

    @app.task(executor="thread")
    async def parent(job: Job, n: int) -> int:
        await job.progress(0.5)
        return await double.call(n)

    async with working(app) as running:
        first = await parent.enqueue(4)
        await eventually(lambda: running.worker.active == 2)
        go.set()
        await eventually(lambda: _in_state(first, State.COMPLETED))
        assert await first.result() == 8
        assert await double.call(5) == 10, "the listener outlives the loop of the handler that asked first"


# --- retries


async def test_a_failure_is_retried_with_backoff_and_sees_the_last_error(app: Holdfast) -> None:
    seen = []

    @app.task(retry=Retry(failures=3, initial=0.01))
    async def flaky(job: Job) -> int:
        seen.append((job.attempt, job.counters.failures, job.last_error and job.last_error.message))
        if job.attempt < 3:
            raise ValueError(f"no {job.attempt}")
        return job.attempt

    async with app:
        handle = await flaky.enqueue()
        report = await burst(app)
        assert await handle.result() == 3
        assert (await handle.job()).counters == Counters(attempts=3, failures=2)
        assert await transitions(app, handle.id) == [
            "enqueue", "claim", "retry", "promote", "claim", "retry", "promote", "claim", "complete",
        ]  # fmt: skip
    assert seen == [(1, 0, None), (2, 1, "no 1"), (3, 2, "no 2")]
    assert report == Report(started=3, retried=2, completed=1)


async def test_the_last_failure_is_final(app: Holdfast) -> None:
    @app.task(retry=Retry(failures=2, initial=0.01))
    def broken() -> None:
        raise KeyError("x")

    async with app:
        handle = await broken.enqueue()
        report = await burst(app)
        with pytest.raises(JobFailed, match="KeyError: 'x'"):
            await handle.result()
        job = await handle.job()
    assert (job.state, job.counters.failures) == (State.FAILED, 2)
    assert job.error is not None
    assert "in broken" in job.error.traceback
    assert report == Report(started=2, retried=1, failed=1)


async def test_a_waiting_retry_is_failing(app: Holdfast) -> None:
    @app.task(retry=Retry(initial=60))
    async def broken() -> None:
        raise ValueError

    async with working(app):
        handle = await broken.enqueue()
        job = await eventually(lambda: _in_state(handle, State.SCHEDULED))
    assert job.failing
    assert 59_000 < job.run_at_ms - job.started_at_ms < 61_000


async def _in_state(handle: Any, *states: State) -> Any:
    job = await handle.job()
    return job if job.state in states else None


async def test_a_job_may_have_its_own_retry_and_timeout(app: Holdfast) -> None:
    @app.task()
    async def broken() -> None:
        raise ValueError("once is enough")

    async with app:
        handle = await broken.options(retry=Retry(failures=1)).enqueue()
        await burst(app)
        assert (await handle.job()).state is State.FAILED


async def test_permanent_fails_at_once(app: Holdfast) -> None:
    @app.task()
    async def broken() -> None:
        raise Permanent("never again")

    async with app:
        handle = await broken.enqueue()
        report = await burst(app)
        job = await handle.job()
    assert report == Report(started=1, failed=1)
    assert (job.state, job.counters.failures) == (State.FAILED, 1)
    assert job.error is not None
    assert (job.error.kind, job.error.message) == ("permanent", "never again")


async def test_snooze_after_and_at_cost_no_failure(app: Holdfast) -> None:
    @app.task()
    async def later(job: Job) -> int:
        if job.attempt == 1:
            raise Snooze(after=0.01)
        if job.attempt == 2:
            raise Snooze(at=datetime.now(UTC) + timedelta(milliseconds=10))
        return job.attempt

    async with app:
        handle = await later.enqueue()
        report = await burst(app)
        assert await handle.result() == 3
        assert (await handle.job()).counters == Counters(attempts=3)
    assert report == Report(started=3, snoozed=2, completed=1)


async def test_snooze_keeps_its_exact_time(app: Holdfast) -> None:
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)

    @app.task()
    async def later() -> None:
        raise Snooze(at=at)

    async with working(app):
        handle = await later.enqueue()
        job = await eventually(lambda: _in_state(handle, State.SCHEDULED))
    assert job.run_at == at
    assert not job.failing


async def test_a_snooze_that_makes_no_sense_is_a_failure_that_says_so(app: Holdfast) -> None:
    @app.task(retry=Retry(failures=1))
    async def later() -> None:
        raise Snooze(at=datetime(2030, 1, 1))

    async with working(app):
        with pytest.raises(JobFailed, match=r"Snooze\(at\).* has no time zone"):
            await later.call()
    with pytest.raises(ConfigError, match="Snooze takes exactly one of at= "):
        Snooze()


async def test_an_async_handler_past_its_time_out_is_stopped_and_retried(app: Holdfast) -> None:
    reasons = []

    @app.task(timeout=0.02, retry=Retry(timeouts=2, initial=0.01))
    async def slow(job: Job) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            reasons.append(job.signal.reason)

    async with app:
        handle = await slow.enqueue()
        report = await burst(app)
        job = await handle.job()
    assert reasons == ["timeout", "timeout"]
    assert job.counters == Counters(attempts=2, timeouts=2)
    assert job.error is not None
    assert (job.error.kind, job.error.message) == ("timeout", "the handler ran for longer than its time-out")
    assert report == Report(started=2, retried=1, failed=1)


async def test_a_def_handler_past_its_time_out_keeps_its_slot_until_it_returns(app: Holdfast) -> None:
    go = threading.Event()
    seen: list[Job] = []

    @app.task(timeout=0.02, retry=Retry(timeouts=1))
    def stubborn(job: Job) -> str:
        seen.append(job)
        go.wait(20)
        return "too late"

    @app.task()
    async def other() -> None: ...

    async with working(app, slots=1) as running:
        handle = await stubborn.enqueue()
        await eventually(lambda: seen and seen[0].signal.reason == "timeout")
        behind = await other.enqueue()
        assert running.worker.active == 1
        assert (await behind.job()).state is State.WAITING
        go.set()
        await behind.result()
        job = await handle.job()
    assert (job.state, job.counters.timeouts) == (State.FAILED, 1)
    assert job.error is not None
    assert job.error.message == "the handler returned after its time-out"


async def test_a_def_handler_can_heed_its_signal(app: Holdfast) -> None:
    @app.task(timeout=0.02, retry=Retry(timeouts=1))
    def polite(job: Job) -> None:
        assert job.signal.wait_in_thread(20)
        job.signal.check()

    async with working(app):
        with pytest.raises(JobFailed, match="longer than its time-out"):
            await polite.call()


# --- what goes wrong in a handler


async def test_a_result_that_cannot_be_encoded_fails_the_job_at_once_and_says_so(app: Holdfast) -> None:
    @app.task()
    async def bad() -> dict[str, Any]:
        return {"when": [object()]}

    async with working(app):
        handle = await bad.enqueue()
        with pytest.raises(JobFailed, match=r"ResultInvalid: .*result\.when\[0\]") as caught:
            await handle.result()
        assert caught.value.error.kind == "permanent"
        assert (await handle.job()).counters == Counters(attempts=1, failures=1)


async def test_a_codec_that_cannot_encode_a_result_fails_the_job_at_once(app: Holdfast) -> None:
    class Broken:
        name = "broken"

        def encode(self, value: Any, type: Any = Any, *, path: str = "payload") -> bytes:
            raise LookupError("no such word")

        def decode(self, data: bytes, type: Any = Any) -> Any:
            return None

    @app.task(result_codec=Broken())
    async def bad() -> str:
        return "odd"

    async with working(app):
        with pytest.raises(JobFailed, match="ResultInvalid: the result cannot be encoded: LookupError: "):
            await bad.call()


async def test_a_payload_that_no_longer_fits_fails_the_attempt_and_says_so(app: Holdfast, url: str) -> None:
    old = Holdfast(url)

    @old.task(name="send")
    async def send_of_before(to: str) -> None: ...

    @app.task(retry=Retry(failures=1))
    async def send(address: str) -> None: ...

    async with old, app:
        handle = await send_of_before.enqueue("ann")
        await burst(app)
        with pytest.raises(JobFailed, match="cannot take this payload"):
            await handle.result()


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (SystemExit(3), "SystemExit"),
        (asyncio.CancelledError(), "CancelledError"),
        (StopIteration(5), "RuntimeError"),
        (Unprintable(), "Unprintable"),
        (ValueError("half a pair: \ud800"), "ValueError"),
        (ExceptionGroup("both", [ValueError(1), KeyError(2)]), "ExceptionGroup"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_whatever_a_handler_raises_ends_its_attempt_and_not_its_worker(
    app: Holdfast, error: BaseException, kind: str
) -> None:
    @app.task(retry=Retry(failures=1))
    async def coroutine() -> None:
        raise error

    @app.task(retry=Retry(failures=1))
    def thread() -> None:
        raise error

    async with app:
        handles = [await coroutine.enqueue(), await thread.enqueue()]
        report = await burst(app)
        errors = [(await handle.job()).error for handle in handles]
    assert report == Report(started=2, failed=2)
    assert [kind in each.type for each in errors if each] == [True, True]


async def test_an_unknown_task_is_released_with_a_delay_and_reported_and_the_worker_goes_on(
    app: Holdfast, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    producer = Holdfast(url)
    heard: list[HookEvent] = []

    @producer.task()
    async def of_tomorrow() -> None: ...

    @app.task()
    async def known() -> str:
        return "here"

    app.on("worker_error")(heard.append)
    async with producer:
        unknown = [await of_tomorrow.enqueue() for _ in range(3)]
        async with working(app):
            assert await known.call() == "here"
            for handle in unknown:
                await eventually(lambda handle=handle: _in_state(handle, State.SCHEDULED))
            job = await unknown[0].job()
    assert job.counters.releases == 0, "it is handed back free of charge"
    assert job.run_at_ms - job.enqueued_at_ms >= 5000
    assert [happening.detail for happening in heard] == ["no task named 'of_tomorrow'"]
    assert "no task named 'of_tomorrow' in this worker; it hands such jobs back free of charge" in caplog.text


async def test_a_burst_leaves_what_it_does_not_know_and_says_so(
    app: Holdfast, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    producer = Holdfast(url)

    @producer.task()
    async def of_tomorrow() -> None: ...

    @app.task(retry=Retry(initial=0.05))
    async def known(job: Job) -> int:
        if job.attempt < 3:
            raise ValueError("not yet")
        return job.attempt

    async with producer, app:
        unknown = [await of_tomorrow.enqueue() for _ in range(3)]
        ours = await known.enqueue()
        report = await burst(app, poll=0.05)
        assert await ours.result() == 3
        assert {(await handle.job()).state for handle in unknown} == {State.SCHEDULED}
    assert (report.started, report.completed, report.retried) == (3, 1, 2)
    assert "what is left is not for this worker: no task named 'of_tomorrow'" in caplog.text


# --- the job that a handler sees


async def test_a_handler_sees_its_job_by_annotation_and_by_current_job(app: Holdfast) -> None:
    @app.task(priority=3)
    async def look(job: Job, n: int) -> list[Any]:
        assert current_job() is job
        return [job.id, job.queue, job.task, job.attempt, job.priority, job.key, job.headers, n]

    @app.task()
    def look_in_thread(n: int, *, job: Job) -> list[Any]:
        assert current_job() is job
        return [job.id, n]

    async with working(app):
        got = await look.options(job_id="x", key="ann", headers={"a": "b"}).call(5)
        assert got == ["x", "default", "look", 1, 3, "ann", {"a": "b"}, 5]
        assert await look_in_thread.options(job_id="y").call(6) == ["y", 6]
        assert current_job() is None


async def test_progress_and_checkpoint_are_seen_outside_and_by_the_next_attempt(app: Holdfast) -> None:
    reported, go = asyncio.Event(), asyncio.Event()
    found = []

    @app.task(retry=QUICK)
    async def long(job: Job) -> None:
        found.append(job.checkpoint)
        if job.attempt == 1:
            await job.progress(0.5, "half")
            await job.save({"page": 7})
            reported.set()
            await go.wait()
            raise ValueError("crash")

    async with working(app):
        handle = await long.enqueue()
        await reported.wait()
        job = await handle.job()
        go.set()
        await handle.result()
        assert "progress" in await transitions(app, handle.id)
    assert job.progress == Progress(fraction=0.5, message="half")
    assert found == [None, {"page": 7}]


async def test_progress_out_of_range_and_a_large_checkpoint_are_refused(app: Holdfast) -> None:
    errors = []

    @app.task()
    async def wrong(job: Job) -> None:
        for attempt in (job.progress(1.5), job.progress("x"), job.progress(0.1, 7), job.save("x" * 70_000)):  # type: ignore[arg-type]
            try:
                await attempt
            except ConfigError as error:
                errors.append(str(error))

    async with working(app):
        await wrong.call()
    assert errors == [
        "progress(1.5): a fraction from 0 to 1, or None with a message alone",
        "progress('x'): a fraction from 0 to 1, or None with a message alone",
        "progress(message=7): a string",
        "a checkpoint is at most 64 kB, and this one has 70002 bytes: store a reference",
    ]


async def test_progress_of_a_job_that_is_gone_raises_lease_lost(app: Holdfast) -> None:
    started = asyncio.Event()
    errors: list[Exception] = []

    @app.task()
    async def long(job: Job) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
        try:
            await job.progress(0.5)
        except LeaseLost as error:
            errors.append(error)

    async with working(app) as running:
        await long.options(job_id="x").enqueue()
        await started.wait()
        assert await app.queue("default").delete("x") is Reply.OK
        await eventually(lambda: errors)
        report = await running.end()
    assert "is no longer held by this worker (missing): stop, nothing of it will count" in str(errors[0])
    assert report == Report(started=1, lost=1)


async def test_a_handler_chooses_how_long_its_result_is_kept(app: Holdfast) -> None:
    @app.task()
    async def brief(job: Job) -> None:
        job.keep_result(timedelta(minutes=2))

    async with working(app):
        handle = await brief.enqueue()
        await handle.result()
        job = await handle.job()
    assert job.expires_at_ms is not None
    assert job.finished_at_ms is not None
    assert job.expires_at_ms - job.finished_at_ms == 120_000


# --- fail handlers


async def test_a_fail_handler_gets_the_arguments_counters_and_error_of_the_failed_job(app: Holdfast) -> None:
    heard: list[Any] = []

    @app.task(queue="alarms")
    async def alarm(job: Job, item: str, count: int = 1) -> None:
        assert job.failed is not None
        heard.append((item, count, job.failed, job.headers["trace"]))

    @app.task(retry=Retry(failures=2, initial=0.01), on_failure=alarm)
    async def order(item: str, count: int = 1) -> None:
        raise ValueError(f"no {item}")

    async with working(app):
        handle = await order.options(job_id="o-1", headers={"trace": "t"}).enqueue("tea", 5)
        await eventually(lambda: heard)
    item, count, failed, trace = heard[0]
    assert (item, count, trace) == ("tea", 5, "t")
    assert (failed.queue, failed.id, failed.run, failed.task) == ("default", "o-1", handle.run, "order")
    assert failed.counters == Counters(attempts=2, failures=2)
    assert (failed.error.type, failed.error.message) == ("ValueError", "no tea")
    assert len(heard) == 1


async def test_a_fail_handler_is_tried_a_hundred_times_unless_it_says_otherwise(app: Holdfast) -> None:
    @app.task()
    async def alarm(job: Job) -> None: ...

    @app.task(retry=Retry(failures=7))
    async def own(job: Job) -> None: ...

    @app.task(on_failure=alarm)
    async def first() -> None: ...

    @app.task(on_failure=own)
    async def second() -> None: ...

    assert (alarm.policy().retry.failures, alarm.policy().retry.initial, alarm.policy().retry.maximum) == (100, 10, 900)
    assert own.policy().retry.failures == 7
    assert first.policy().on_failure == ("default", "alarm")


def _fail_handlers() -> dict[str, tuple[Any, str]]:
    """Fail handlers for `order(item: str, count: int = 1)` that could never be called, and what is said of each."""

    async def less(item: str) -> None: ...
    async def more(item: str, count: int, who: str) -> None: ...
    async def needy(item: str, count: int) -> None: ...
    async def other(item: int, count: int = 1) -> None: ...
    async def anything(**rest: Any) -> None: ...

    return {
        "less": (less, "less() takes no 'count', which order() takes"),
        "more": (more, "more() needs 'count', which a call of order() need not have"),
        "needy": (needy, "needy() needs 'count', which a call of order() need not have"),
        "other": (other, "'item' is int in other() and str in order()"),
        "anything": (anything, "anything() takes no 'count', which order() takes"),
    }


@pytest.mark.parametrize(("handler", "told"), _fail_handlers().values(), ids=_fail_handlers())
def test_a_fail_handler_that_could_not_be_called_is_refused_at_its_declaration(handler: Any, told: str) -> None:
    app = Holdfast("memory://")

    async def order(item: str, count: int = 1) -> None: ...

    with pytest.raises(ConfigError) as caught:
        app.task(on_failure=app.task()(handler))(order)
    assert str(caught.value) == (
        f"task 'order': on_failure={handler.__name__}: a fail handler is given the arguments of the job that failed, "
        f"and {told}; give it the same parameters (and job: Job, whose job.failed tells the rest)"
    )
    assert "order" not in app.registry.tasks


def test_a_fail_handler_may_take_more_than_its_task_gives(app: Holdfast) -> None:
    async def order(item: str, count: int = 1) -> None: ...
    async def alarm(job: Job, item: Any, count: float = 2, note: str = "") -> None: ...
    async def packed(item: str, count: int = 1) -> None: ...

    app.task(on_failure=app.task()(alarm))(order)
    with pytest.raises(ConfigError, match="on_failure=packed: its codec is another"):
        app.task(name="again", on_failure=app.task(codec="msgpack")(packed))(order)


# --- cancel while it runs


async def test_cancel_refuses_an_active_job_unless_it_is_told_to_signal(app: Holdfast) -> None:
    started = asyncio.Event()
    reasons = []

    @app.task()
    async def long(job: Job) -> None:
        started.set()
        reasons.append(await job.signal.wait())
        job.signal.check()

    async with working(app, slots=1) as running:
        handle = await long.options(job_id="x").enqueue()
        await started.wait()
        refused = await handle.cancel()
        assert (refused.reply, refused.state, refused.signalled) == (Reply.WRONG_STATE, State.ACTIVE, False)
        signalled = await handle.cancel(running="signal")
        assert (signalled.reply, signalled.signalled) == (Reply.OK, True)
        job = await eventually(lambda: _in_state(handle, State.CANCELLED))
        report = await running.end()
    assert reasons == ["cancelled"]
    assert job.counters.failures == 0
    assert report == Report(started=1, cancelled=1)


async def test_a_signal_reaches_a_worker_whose_slots_are_all_taken_well_before_its_heartbeat(app: Holdfast) -> None:
    started = asyncio.Event()

    @app.task()
    async def long(job: Job) -> None:
        started.set()
        await job.signal.wait()
        job.signal.check()

    async with working(app, slots=1, lease=300, poll=300):
        handle = await long.enqueue()
        await started.wait()
        await handle.cancel(running="signal")
        await eventually(lambda: _in_state(handle, State.CANCELLED), patience=10)


async def test_a_handler_that_completes_in_spite_of_the_signal_has_completed(app: Holdfast) -> None:
    started = asyncio.Event()

    @app.task()
    async def long(job: Job) -> str:
        started.set()
        await job.signal.wait()
        return "done all the same"

    async with working(app):
        handle = await long.enqueue()
        await started.wait()
        await handle.cancel(running="signal")
        assert await handle.result() == "done all the same"


async def test_deleting_a_running_job_stops_its_handler(app: Holdfast) -> None:
    started = asyncio.Event()
    ended = []

    @app.task()
    async def long(job: Job) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(job.signal.reason)

    async with working(app, slots=1, lease=300, poll=300):
        await long.options(job_id="x").enqueue()
        await started.wait()
        await app.queue("default").delete("x")
        await eventually(lambda: ended, patience=10)
    assert ended == ["deleted"]


async def test_aborted_names_its_reason() -> None:
    assert str(Aborted("shutdown")) == "told to stop: shutdown"


# --- queues


async def test_queues_are_served_by_priority(app: Holdfast) -> None:
    order: list[str] = []

    async def note(job: Job) -> None:
        order.append(job.queue)

    for name, priority in (("low", -5), ("mid", 0), ("high", 5)):
        app.queue(name, priority=priority)
        app.task(queue=name, name=name)(note)
    async with app:
        for _ in range(3):
            for name in ("low", "mid", "high"):
                await app.registry.tasks[name].enqueue()
        await burst(app, slots=1)
    assert order == ["high"] * 3 + ["mid"] * 3 + ["low"] * 3


async def test_queues_of_one_priority_take_turns(app: Holdfast) -> None:
    order: list[str] = []

    async def note(job: Job) -> None:
        order.append(job.queue)

    for name in ("a", "b"):
        app.task(queue=name, name=name)(note)
    async with app:
        for name in ("a", "b"):
            for _ in range(4):
                await app.registry.tasks[name].enqueue()
        await burst(app, slots=1)
    assert order == ["a", "b"] * 4


async def test_a_worker_serves_only_its_queues(app: Holdfast) -> None:
    @app.task(queue="a")
    async def a() -> None: ...

    @app.task(queue="b")
    async def b() -> None: ...

    async with app:
        await a.enqueue()
        left = await b.enqueue()
        assert (await burst(app, "a")).completed == 1
        assert (await left.job()).state is State.WAITING


async def test_priority_then_run_at_then_arrival(app: Holdfast) -> None:
    order: list[int] = []

    @app.task()
    async def note(n: int) -> None:
        order.append(n)

    async with app:
        for n, priority in enumerate([0, 5, 0, 1000, -1000, 5]):
            await note.options(priority=priority).enqueue(n)
        await burst(app, slots=1)
    assert order == [3, 1, 5, 0, 2, 4]


async def test_a_paused_queue_gives_nothing_until_it_is_resumed(app: Holdfast) -> None:
    @app.task()
    async def ping() -> str:
        return "pong"

    async with working(app, poll=300):
        await app.queue("default").pause()
        handle = await ping.enqueue()
        assert (await burst(app)).started == 0
        await app.queue("default").resume()
        assert await handle.result() == "pong"


async def test_limits_are_changed_live(app: Holdfast) -> None:
    gate = asyncio.Event()
    running = most = 0

    @app.task()
    async def wait() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await gate.wait()
        running -= 1

    queue = app.queue("default", concurrency=2)
    async with working(app, slots=10, poll=300):
        await wait.enqueue_many(wait.args() for _ in range(10))
        await eventually(lambda: running == 2)
        settings = await queue.set(concurrency=5)
        assert settings == QueueSettings(concurrency=5)
        await eventually(lambda: running == 5)
        assert (await queue.set(clear=["concurrency"])).concurrency == 2
        gate.set()
        await eventually(lambda: _is_empty(app))
    assert most == 5


async def _is_empty(app: Holdfast) -> bool:
    info = await app.queue("default").info()
    return info is not None and info.counts["waiting"] == info.counts["active"] == 0


# --- burst


async def test_a_burst_waits_for_retries_but_not_for_what_is_due_later(app: Holdfast) -> None:
    tries = []

    @app.task(retry=Retry(initial=0.05))
    async def flaky(job: Job) -> None:
        tries.append(job.attempt)
        if job.attempt < 3:
            raise ValueError

    async with app:
        await flaky.enqueue()
        later = await flaky.options(delay=3600).enqueue()
        report = await burst(app, poll=300)
        assert (await later.job()).state is State.SCHEDULED
    assert tries == [1, 2, 3]
    assert report.completed == 1


async def test_a_burst_of_nothing_ends(app: Holdfast) -> None:
    @app.task()
    async def never() -> None: ...

    assert await burst(app) == Report()


async def test_a_burst_runs_what_its_own_handlers_enqueue(app: Holdfast) -> None:
    @app.task()
    async def countdown(n: int) -> None:
        if n:
            await countdown.enqueue(n - 1)

    async with app:
        await countdown.enqueue(20)
        assert (await burst(app)).completed == 21


# --- start and stop


async def test_a_worker_that_runs_is_not_started_twice_and_may_start_again(app: Holdfast) -> None:
    @app.task()
    async def ping() -> str:
        return "pong"

    async with app:
        worker = app.worker()
        running = Running(worker)
        await eventually(lambda: worker.healthy)
        with pytest.raises(ConfigError, match="this worker runs already"):
            await worker.run()
        assert await ping.call() == "pong"
        worker.stop()
        await worker.stopped()
        assert (await running.task).completed == 1
        assert not worker.healthy
        worker.stop()
        worker.stop()
        running = Running(worker)
        assert await ping.call() == "pong"
        assert (await running.end()).completed == 1
        assert await app.workers() == []


async def test_a_stop_that_comes_before_the_worker_has_begun_counts(app: Holdfast) -> None:
    @app.task()
    async def ping() -> str:
        return "pong"

    async with app:
        worker = app.worker()
        for _ in range(2):
            begun = asyncio.create_task(worker.run())
            worker.stop()
            assert await asyncio.wait_for(begun, PATIENCE) == Report()
        early = app.worker()
        early.stop()
        assert await asyncio.wait_for(early.run(), PATIENCE) == Report()
        running = Running(early)
        assert await ping.call() == "pong"
        assert (await running.end()).completed == 1


async def test_a_worker_opens_and_closes_the_app_by_itself(app: Holdfast) -> None:
    @app.task()
    async def ping() -> None: ...

    await app.worker().run(burst=True)
    assert app.loop is None


async def test_workers_are_listed_while_they_work(app: Holdfast) -> None:
    @app.task()
    async def ping() -> None: ...

    async with working(app, name="me", slots=3):
        (info,) = await app.workers()
        assert (info.session.name, info.session.slots, info.session.queues) == ("me", 3, ("default",))
        assert info.alive


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"slots": 0}, "slots=0: a whole number from 1"),
        ({"slots": 2.5}, "slots=2.5: a whole number from 1"),
        ({"lease": 0.1}, "lease=0.1: at least 0.3 s"),
        ({"lease": "15"}, "lease='15': give seconds from 0 on, or a timedelta"),
        ({"poll": 0}, "poll=0: at least 0.01 s"),
        ({"drain": -1}, "drain=-1: give seconds from 0 on"),
        ({"on_evicted": "cry"}, 'on_evicted=\'cry\': "restart" or "exit"'),
        ({"queues": "mail"}, "queues='mail': give a list of names, such as ['mail']"),
    ],
)
async def test_a_bad_worker_option_gives_one_clear_line(app: Holdfast, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        app.worker(**{"queues": ["default"], **options})
    assert message in str(caught.value)


async def test_a_worker_with_nothing_to_serve_says_so(app: Holdfast) -> None:
    with pytest.raises(ConfigError, match="declares no task and no queue; name the queues to serve"):
        app.worker()


async def test_the_same_version_with_another_policy_is_refused(app: Holdfast, url: str) -> None:
    changed, newer, older = Holdfast(url), Holdfast(url, version=1), Holdfast(url)
    for each, failures in ((app, 3), (changed, 5), (newer, 5), (older, 3)):
        each.task(name="send", retry=Retry(failures=failures))(_send)
    await burst(app)
    with pytest.raises(PolicyConflict, match="task 'send' of queue 'default' was declared before with version 0"):
        await burst(changed)
    await burst(newer)
    await burst(older)
    async with app:
        assert (await app.store.policies("default"))["send"].retry.failures == 5


async def _send() -> None: ...


async def test_nothing_is_logged_as_an_error_when_all_goes_well(
    app: Holdfast, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task()
    async def ping() -> None: ...

    with caplog.at_level(logging.WARNING):
        async with working(app, poll=300):
            await ping.call()
    assert caplog.records == []
