"""Attempts that begin with a quick first step end as those that go the slow way do."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased
from opentelemetry.trace import get_current_span
from spans import recording
from support import burst

from holdfast import Holdfast, JobRecord, Permanent, Retry, Snooze, current_job
from holdfast.core.envelope import Envelope
from holdfast.store.contract import NewJob
from holdfast.worker.attempts import first_step as quick_way
from holdfast.worker.attempts import shared_task

word: ContextVar[str] = ContextVar("word", default="")


class OwnError(Exception):
    pass


def make_app() -> tuple[Holdfast, Any]:
    app = Holdfast("memory://")

    @app.task(name="next")
    async def following(number: int) -> int:
        return number + 1

    @app.task(name="work", retry=Retry(failures=1))
    async def work(how: str) -> Any:
        job = current_job()
        assert job is not None
        assert word.get() == ""
        word.set(how)
        match how:
            case "value":
                return {"word": word.get(), "attempt": job.attempt}
            case "kept":
                job.keep_result(7200)
                return "kept"
            case "waits":
                await asyncio.sleep(0)
                return [word.get(), job.attempt]
            case "waits twice":
                await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0.001))
                return word.get()
            case "raises":
                raise OwnError("at once")
            case "raises later":
                await asyncio.sleep(0)
                raise OwnError("later")
            case "times out":
                async with asyncio.timeout(0.001):
                    await asyncio.Event().wait()
            case "snoozes":
                if not job.snoozes:
                    raise Snooze(after=0.01)
            case "gives up":
                raise Permanent("never")
            case "cancels":
                raise asyncio.CancelledError
            case "continues":
                return job.continue_with(following, 1)
            case "completes":
                async with job.complete() as tx:
                    tx.result = "done"
            case "unreadable":
                return object()
            case "too large":
                return "x" * 3_000_000
            case "a future":
                future = asyncio.get_running_loop().create_future()
                asyncio.get_running_loop().call_soon(future.set_result, 7)
                return await future
        return None

    return app, work


HOWS = (
    "value", "kept", "waits", "waits twice", "raises", "raises later", "times out", "snoozes", "gives up", "cancels",
    "continues", "completes", "unreadable", "too large", "a future", "nothing",
)  # fmt: skip


def shown(job: JobRecord) -> tuple[object, ...]:
    error = None if job.error is None else (job.error.type, job.error.message, job.error.kind)
    kept = (
        round((job.expires_at_ms - job.finished_at_ms) / 60_000) if job.expires_at_ms and job.finished_at_ms else None
    )
    return job.task, job.state, job.counters, job.snoozes, job.result, error, kept


async def ends(how: str) -> list[tuple[object, ...]]:
    """What is left of a job of that kind, with usual ones before and behind it."""
    app, work = make_app()
    async with app:
        for number, each in enumerate(("nothing", how, "value")):
            await work.options(job_id=f"job {number}").enqueue(each)
        await burst(app, slots=10)
        jobs = (await app.jobs()).jobs
    return sorted(map(shown, jobs), key=repr)


@pytest.mark.parametrize("how", HOWS)
async def test_an_attempt_ends_as_by_the_slow_way(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    quickly, began = await ends(how), list[Any]()

    def counted(*given: Any) -> Any:
        began.append(given)
        return quick_way.first_step(*given)

    with monkeypatch.context() as patched:
        patched.setattr(shared_task, "first_step", counted)
        assert await ends(how) == quickly
        assert len(began) >= 1
    monkeypatch.setattr(shared_task, "quick_call", lambda task: None)
    assert await ends(how) == quickly


async def test_a_handler_that_is_aborted_while_it_waits_is_told_through_its_own_coroutine() -> None:
    app = Holdfast("memory://")
    told: list[str] = []

    @app.task(timeout=0.05, retry=Retry(timeouts=1))
    async def slow(number: int) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            told.append(word.get() + str(number))
            raise

    async with app:
        await slow.enqueue_many(slow.args(number) for number in range(3))
        report = await burst(app, slots=3)
    assert (sorted(told), report.failed) == (["0", "1", "2"], 3)


SAMPLED, DROPPED = (f"00-{'1' * 32}-{'2' * 16}-{flags}" for flags in ("01", "00"))


async def traced_ends(headers: dict[str, str]) -> tuple[list[object], list[tuple[str, object]]]:
    """What a handler saw of its trace and its headers, and the spans of its attempt with what they say."""
    app, seen = Holdfast("memory://"), list[object]()

    @app.task
    async def look(number: int) -> None:
        job, span = current_job(), get_current_span().get_span_context()
        assert job is not None
        parent = span.trace_id if "traceparent" in headers else None  # without one, each begins a trace of its own
        seen.append((number, parent, span.trace_flags, dict(job.headers), job.tags))

    with recording(ParentBased(ALWAYS_OFF)) as recorder:
        async with app:
            new = [
                NewJob(id=str(n), task="look", payload=b'{"number":%d}' % n, envelope=carried(headers)) for n in (1, 2)
            ]
            await app.store.enqueue("default", new)
            await burst(app, slots=10)
    return seen, [(span.name, told(span)) for span in recorder.ended if not span.name.startswith("send")]


def told(span: ReadableSpan) -> object:
    attributes = {name: value for name, value in (span.attributes or {}).items() if name != "holdfast.waited"}
    return attributes, span.status.status_code, len(span.links)


def carried(headers: dict[str, str]) -> bytes | None:
    return Envelope(headers=headers, tags=("red",)).encoded()


@pytest.mark.parametrize("headers", [{}, {"tenant": "ann"}, {"traceparent": SAMPLED}, {"traceparent": DROPPED}])
async def test_a_trace_is_handed_on_as_by_the_slow_way(
    headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    quickly = await traced_ends(headers)
    names = ["process default"] * 2 if SAMPLED in headers.values() else []
    assert [name for name, _ in quickly[1]] == names
    monkeypatch.setattr(shared_task, "quick_call", lambda task: None)
    assert await traced_ends(headers) == quickly
