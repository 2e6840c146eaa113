"""Payloads and results have a limit, wherever they come from and wherever they go."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import click.testing
import pytest
from places import STORES, place
from support import burst

from holdfast import (
    ConfigError,
    Continued,
    Every,
    Holdfast,
    Job,
    JobFailed,
    PayloadError,
    PayloadTooLarge,
    ResultTooLarge,
    Retry,
)
from holdfast.cli import cli
from holdfast.core.size import DEFAULT_SIZE, MOST_SIZE
from holdfast.handler.job import MOST_CHECKPOINT, MOST_MESSAGE


@pytest.fixture(params=STORES)
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Holdfast]:
    """An app on an empty store of each kind, whose payloads and results have up to a thousand bytes."""
    with place(request.param, tmp_path) as url:
        yield Holdfast(url, max_payload=1000, max_result=1000)


def text(size: int) -> str:
    """Return what has so many bytes as JSON."""
    return "x" * (size - 2)


def test_the_limit_is_a_mebibyte_unless_somebody_says_otherwise() -> None:
    app = Holdfast("memory://")

    @app.task()
    async def send(a: str) -> None: ...

    assert (send.max_payload, send.max_result) == (DEFAULT_SIZE, DEFAULT_SIZE) == (1024 * 1024, 1024 * 1024)
    assert send.args("x" * (DEFAULT_SIZE - len('{"a":""}'))).job.payload
    with pytest.raises(PayloadTooLarge) as caught:
        send.args("x" * (DEFAULT_SIZE - len('{"a":""}') + 1))
    assert str(caught.value) == (
        "payload of send has 1048577 bytes, and max_payload is 1048576: store it elsewhere and pass where it is, or "
        "raise max_payload of the task, its queue or the app"
    )
    assert (caught.value.size, caught.value.limit, caught.value.path) == (DEFAULT_SIZE + 1, DEFAULT_SIZE, "payload")


def test_the_nearest_setting_wins() -> None:
    app = Holdfast("memory://", max_payload=100, max_result=1)
    app.queue("mail", max_payload=200, max_result=2)

    @app.task(queue="mail", max_payload=300)
    async def own() -> None: ...

    @app.task(queue="mail")
    async def of_queue() -> None: ...

    @app.task(queue="other")
    async def of_app() -> None: ...

    found = [(each.max_payload, each.max_result) for each in (own, of_queue, of_app)]
    assert found == [(300, 2), (200, 2), (100, 1)]


@pytest.mark.parametrize("name", ["max_payload", "max_result"])
@pytest.mark.parametrize("value", [0, -1, True, 1.5, "1", float("nan"), MOST_SIZE + 1])
def test_a_limit_is_a_number_of_bytes(name: str, value: Any) -> None:
    told = f"{name}=.*: a number of bytes from 1 to {MOST_SIZE}"
    app = Holdfast("memory://")
    with pytest.raises(ConfigError, match=told):
        Holdfast("memory://", **{name: value})
    with pytest.raises(ConfigError, match=told):
        app.queue("q", **{name: value})
    with pytest.raises(ConfigError, match=told):
        app.task(**{name: value})(lambda: None)


async def test_no_way_in_takes_a_payload_that_is_too_large(app: Holdfast) -> None:
    @app.task()
    async def send(a: str) -> None: ...

    large, queue = "x" * 1000, app.queue("plain")
    ways: list[Any] = [
        lambda: send.enqueue(large),
        lambda: send.call(large),
        lambda: send.options(job_id="there", on_conflict="update").enqueue(large),
        lambda: send.enqueue_many(send.args(each) for each in ("ok", large)),
        lambda: app.enqueue_many(send.args(each) for each in ("ok", large)),
        lambda: queue.enqueue(large),
        lambda: queue.call(large),
        lambda: queue.enqueue_many(["ok", large]),
        lambda: app.schedules.add("nightly", Every(60), send.args(large)),
        lambda: app.schedules.add("nightly", Every(60), queue.args(large)),
    ]
    async with app:
        await send.options(job_id="there").enqueue("small")
        for way in ways:
            with pytest.raises(PayloadTooLarge, match=r"has 10\d\d bytes, and max_payload is 1000"):
                await way()
        assert [job.id for job in (await app.jobs()).jobs] == ["there"]
        assert b"small" in (await send.status("there")).payload


async def test_the_entry_of_many_that_is_too_large_is_named(app: Holdfast) -> None:
    @app.task()
    async def send(a: str) -> None: ...

    async def awaited() -> AsyncIterator[str]:
        for each in ("a", "b", "c" * 1000):
            yield each

    async with app:
        with pytest.raises(PayloadTooLarge, match=r"payloads\[2\] of queue 'plain' has 1002 bytes") as caught:
            await app.queue("plain").enqueue_many(["a", "b", "c" * 1000])
        assert caught.value.index == 2
        with pytest.raises(PayloadTooLarge, match=r"payloads\[2\]"):
            await app.queue("plain").enqueue_many(awaited())
        with pytest.raises(PayloadError) as other:
            await app.enqueue_many(send.args(each) for each in ("a", object()))  # type: ignore[arg-type]
        assert other.value.index == 1
        assert other.value.__notes__ == ["entry 1 of enqueue_many, counted from 0"]


@pytest.mark.parametrize("executor", ["inline", "thread"])
async def test_a_result_that_is_too_large_fails_the_job_at_once(app: Holdfast, executor: Any) -> None:
    ran: list[int] = []

    if executor == "inline":

        @app.task(retry=Retry(failures=5))
        async def measure(size: int) -> str:
            ran.append(size)
            return text(size)

    else:

        @app.task(retry=Retry(failures=5))
        def measure(size: int) -> str:
            ran.append(size)
            return text(size)

    async with app:
        fits, large = await measure.enqueue(1000), await measure.enqueue(1001)
        await burst(app)
        assert len(await fits.result()) == 998
        with pytest.raises(JobFailed) as caught:
            await large.result()
    assert sorted(ran) == [1000, 1001]
    assert (caught.value.error.type, caught.value.error.kind) == ("ResultTooLarge", "permanent")
    assert caught.value.error.message == (
        f"the result of default/{large.id} has 1001 bytes, and max_result is 1000: store it elsewhere and return where "
        "it is, or raise max_result of the task, its queue or the app"
    )


async def test_a_chain_has_the_limits_of_its_tasks(app: Holdfast) -> None:
    @app.task(retry=Retry(failures=1))
    async def last(a: str, size: int) -> str:
        return text(size)

    @app.task(retry=Retry(failures=1))
    async def first(job: Job, payload: int, result: int) -> Continued[str]:
        return job.continue_with(last, "x" * payload, result)

    async with app:
        handles = [await first.enqueue(*sizes) for sizes in ((1, 1000), (1, 1001), (1000, 1))]
        await burst(app)
        assert len(await handles[0].result()) == 998
        for handle, kind in zip(handles[1:], ["ResultTooLarge", "PayloadTooLarge"], strict=True):
            with pytest.raises(JobFailed) as caught:
                await handle.result()
            assert caught.value.error.type == kind
        open_one = await first.enqueue(1, 1)
        with pytest.raises(PayloadTooLarge, match="the result of first has 1001 bytes"):
            await first.complete(open_one.id, text(1001))
        with pytest.raises(PayloadTooLarge, match="max_result is 1000"):
            await app.complete_chain("default", open_one.id, text(1001))


async def test_what_a_job_carries_beside_its_payload_is_bounded(app: Holdfast) -> None:
    told: list[str] = []

    @app.task()
    async def reports(job: Job) -> None:
        for report in (job.progress(0.5, "x" * (MOST_MESSAGE + 1)), job.save("x" * MOST_CHECKPOINT)):
            with pytest.raises(ConfigError) as caught:
                await report
            told.append(str(caught.value))
        await job.progress(0.5, "x" * MOST_MESSAGE)
        await job.save("x" * (MOST_CHECKPOINT - 2))

    async with app:
        with pytest.raises(ConfigError, match="headers: 20009 bytes as JSON, and at most 16384"):
            reports.options(headers={"x": "x" * 20_000 + "!"})
        handle = await reports.enqueue()
        await burst(app)
        await handle.result()
    assert told == [
        f"progress(message=...): at most {MOST_MESSAGE} characters, and this one has {MOST_MESSAGE + 1}",
        f"a checkpoint is at most 64 kB, and this one has {MOST_CHECKPOINT + 2} bytes: store a reference",
    ]


async def test_a_completion_in_a_transaction_of_the_handlers_has_the_limit_too(url: str) -> None:
    app = Holdfast(url, max_result=10)

    @app.task(retry=Retry(failures=5))
    async def writes(job: Job) -> Any:
        async with job.complete("x" * 20):
            pass

    async with app:
        handle = await writes.enqueue()
        await burst(app)
        with pytest.raises(JobFailed) as caught:
            await handle.result()
    assert caught.value.error.type == "ResultTooLarge"


def test_a_result_that_is_too_large_is_both() -> None:
    assert issubclass(ResultTooLarge, PayloadTooLarge)


def test_the_command_line_has_the_limit(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"

    def enqueue(*words: str) -> click.testing.Result:
        return click.testing.CliRunner().invoke(cli, ["enqueue", "--url", url, "--queue", "q", *words])

    large = f'"{"x" * DEFAULT_SIZE}"'
    assert "has 1048578 bytes, and max_payload is 1048576" in enqueue(large).output
    assert enqueue(large, "--max-payload", "2M").exit_code == 0
    assert enqueue('"xxx"', "--max-payload", "4").exit_code != 0
