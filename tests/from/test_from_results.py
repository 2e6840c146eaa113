"""What docs/from says of results, waiting, cancelling, errors and payloads."""

from __future__ import annotations

import asyncio
import inspect
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from places import STORES, place
from support import eventually, working

from holdfast import (
    Handle,
    Holdfast,
    HookEvent,
    Job,
    JobCancelled,
    JobError,
    JobFailed,
    JobMissing,
    JobTimeout,
    PayloadError,
    PayloadTooLarge,
    Permanent,
    StoreError,
)
from holdfast.client import Client
from holdfast.testing import ManualClock, drain


async def test_a_call_waits_thirty_seconds(app: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    @app.task()
    async def work() -> None: ...

    waited: list[Any] = []

    async def call(self: Client, listener: Any, queue: str, job: Any, conflict: Any, timeout: float | None) -> bytes:
        waited.append(timeout)
        return b"null"

    assert inspect.signature(Handle.result).parameters["timeout"].default == 30
    monkeypatch.setattr(Client, "call", call)
    async with app:
        await work.call()
        await app.queue("default").call({})
    assert waited == [30, 30]


async def test_after_a_wait_in_vain_the_job_goes_on(app: Holdfast) -> None:
    @app.task()
    async def work() -> str:
        return "done"

    async with app:
        with pytest.raises(JobTimeout):
            await work.options(job_id="a").call_within(0.01)
        assert [ran.result for ran in await drain(app)] == ["done"]
        assert await work.result("a") == "done"


async def test_two_callers_of_one_id_share_one_run(app: Holdfast) -> None:
    ran: list[str] = []

    @app.task()
    async def work(job: Job) -> int:
        ran.append(job.id)
        return job.run

    async with working(app):
        once = work.options(job_id="a")
        first, second = await asyncio.gather(once.call(), once.call())
        assert (first, ran) == (second, ["a"])
        assert await once.call() == first


async def test_a_result_that_is_not_there_yet_raises(app: Holdfast) -> None:
    @app.task()
    async def work() -> None: ...

    async with app:
        await work.options(job_id="a").enqueue()
        with pytest.raises(JobTimeout):
            await work.result("a", timeout=0)
        with pytest.raises(JobMissing):
            await work.result("b", timeout=0)
        assert (await work.status("a")).result is None


async def test_each_outcome_has_its_error(app: Holdfast) -> None:
    @app.task()
    async def work() -> None:
        raise Permanent("no")

    async with app:
        failed = await work.enqueue()
        await drain(app)
        cancelled = await work.enqueue()
        await cancelled.cancel()
        with pytest.raises(JobFailed) as raised:
            await failed.result()
        with pytest.raises(JobCancelled):
            await cancelled.result()
    assert (raised.value.error.type, raised.value.error.message) == ("Permanent", "no")
    assert all(issubclass(each, JobError) for each in (JobFailed, JobCancelled, JobTimeout, JobMissing))
    assert issubclass(JobTimeout, TimeoutError)


async def test_the_stores_trouble_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "jobs.db").write_bytes(b"this is no database, and long enough to be seen as none" * 100)
    with pytest.raises(StoreError):
        async with Holdfast(f"sqlite:///{tmp_path}/jobs.db"):
            pass


async def test_cancel_answers_with_what_was_there(app: Holdfast) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    @app.task()
    async def work(job: Job) -> str:
        if job.id == "a":
            started.set()
            await go_on.wait()
        return job.id

    async with working(app):
        queue = app.queue("default")
        await work.options(job_id="w", delay=60).enqueue()
        waiting, missing = await queue.cancel("w"), await queue.cancel("m")
        handle = await work.options(job_id="a").enqueue()
        await started.wait()
        active = await queue.cancel("a")
        go_on.set()
        assert await handle.result() == "a"
        done = await queue.cancel("a")
    assert [(bool(each), str(each.reply), each.state) for each in (waiting, missing, active, done)] == [
        (True, "ok", "scheduled"),
        (False, "missing", None),
        (False, "wrong_state", "active"),
        (False, "wrong_state", "completed"),
    ]


async def test_a_running_job_can_be_told_to_stop(app: Holdfast) -> None:
    @app.task()
    async def work(job: Job) -> None:
        await job.signal.wait()
        job.signal.check()

    async with working(app) as running:
        handle = await work.enqueue()
        await eventually(lambda: running.worker.active)
        assert (await handle.cancel(running="signal")).signalled
        with pytest.raises(JobCancelled):
            await handle.result()


async def test_an_operator_may_keep_a_result_for_longer(app: Holdfast, clock: ManualClock) -> None:
    @app.task(result_ttl=60)
    async def work() -> str:
        return "done"

    async with app:
        await work.options(job_id="a").enqueue()
        await drain(app)
        assert await app.queue("default").keep_result("a", 600)
        clock.advance(599)
        await drain(app)
        assert await work.result("a") == "done"


@pytest.mark.parametrize("value", [float("nan"), datetime(2026, 1, 1, tzinfo=UTC), {1: 2}, {1, 2}, b"bytes"])
async def test_what_json_would_change_is_refused_at_enqueue(app: Holdfast, value: Any) -> None:
    async with app:
        with pytest.raises(PayloadError) as raised:
            await app.queue("plain").enqueue({"items": [value]})
        assert (await app.jobs()).jobs == []
    assert str(raised.value.path).startswith("payload.items[0]")


async def test_an_annotation_makes_more_types_travel(app: Holdfast) -> None:
    when = datetime(2026, 1, 1, tzinfo=UTC)

    @app.task()
    async def work(at: datetime) -> datetime:
        return at

    async with app:
        await work.enqueue(when)
        assert [ran.result for ran in await drain(app)] == [when]


async def test_messagepack_takes_bytes(app: Holdfast) -> None:
    queue = app.queue("frames", codec="msgpack", result_codec="msgpack", handler="from_handlers:echo")
    async with app:
        await queue.enqueue({"frame": b"\x00\xff"})
        assert [ran.result for ran in await drain(app)] == [{"frame": b"\x00\xff"}]


async def test_a_payload_has_a_mebibyte_at_most(app: Holdfast) -> None:
    async with app:
        with pytest.raises(PayloadTooLarge) as raised:
            await app.queue("plain").enqueue("x" * 2**20)
    assert raised.value.limit == 2**20


async def test_a_none_is_a_result(app: Holdfast) -> None:
    @app.task()
    async def work() -> None: ...

    async with app:
        handle = await work.enqueue()
        await drain(app)
        assert await handle.result() is None


@pytest.mark.parametrize("kind", STORES)
async def test_progress_is_seen_by_those_who_wait(kind: str, tmp_path: Path) -> None:
    """What was reported before somebody waits is told at once, what comes later when it comes, and each but once."""
    seen: list[float | None] = []
    first, second = asyncio.Event(), asyncio.Event()

    def note(progress: Any) -> None:
        seen.append(progress.fraction)
        (first if len(seen) == 1 else second).set()

    with place(kind, tmp_path) as url:
        app = Holdfast(url)

        @app.task()
        async def work(job: Job) -> None:
            await job.progress(0.5, "half")
            await first.wait()
            await job.progress(0.9, "nearly")
            await second.wait()

        async with working(app):
            handle = await work.enqueue()

            async def is_half() -> bool:
                return (await handle.job()).progress is not None

            await eventually(is_half)
            await handle.result(on_progress=note)
    assert seen == [0.5, 0.9]


async def test_hooks_are_told_of_ends_with_result_and_error(app: Holdfast) -> None:
    heard: list[tuple[str, str | None, object]] = []

    def note(happening: HookEvent) -> None:
        heard.append((happening.name, happening.id, happening.result or str(happening.error)))

    for name in ("complete", "fail"):
        app.on(name)(note)

    @app.task()
    async def work(good: bool) -> str:
        if not good:
            raise Permanent("no")
        return "done"

    async with working(app):
        await work.options(job_id="a").call(True)
        with pytest.raises(JobFailed):
            await work.options(job_id="b").call(False)
        await eventually(lambda: len(heard) == 2)
    assert heard == [("complete", "a", "done"), ("fail", "b", "no")]


@pytest.mark.parametrize("kind", STORES)
async def test_the_event_log_has_every_transition(kind: str, tmp_path: Path) -> None:
    with place(kind, tmp_path) as url:
        app = Holdfast(url)

        @app.task()
        async def work() -> None: ...

        async with working(app):
            await work.options(job_id="a").call()
        async with app:
            told = [event.transition async for event in app.events() if event.id == "a"]
    assert told == ["enqueue", "claim", "complete"]
