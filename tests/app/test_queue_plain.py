"""Queues with no decorator: a payload in, and a handler that the worker names by its import path."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from support import burst, eventually, working

from holdfast import ConfigError, Counters, EnqueueCounts, Holdfast, HookEvent, JobFailed, PayloadError, Retry, State


async def test_a_plain_queue_runs_the_handler_that_its_worker_names(app: Holdfast) -> None:
    mail = app.queue("mail", handler="plain_handlers:echo")
    async with working(app):
        handle = await mail.enqueue({"to": "ann", "n": [1, None]})
        assert await handle.result() == {"got": {"to": "ann", "n": [1, None]}}
        assert await mail.call("hello", job_id="x") == {"got": "hello"}
        assert await mail.result("x") == {"got": "hello"}
        assert (await mail.status("x")).task is None


async def test_the_producer_knows_nothing_of_the_handler(app: Holdfast, url: str) -> None:
    """The import path is the worker's configuration and never a field of a job."""
    producer = Holdfast(url)
    async with producer:
        handle = await producer.queue("mail").enqueue({"to": "ann"}, priority=5, key="k", headers={"a": "b"})
        job = await handle.job()
        assert b"plain_handlers" not in job.payload
        app.queue("mail", handler="plain_handlers:echo_in_thread")
        await burst(app)
        assert await handle.result() == [{"to": "ann"}, handle.id, None]


async def test_a_nested_name_is_found(app: Holdfast) -> None:
    queue = app.queue("mail", handler="plain_handlers:Nested.inner")
    async with working(app):
        assert await queue.call(None) == "inner"


async def test_a_plain_queue_has_its_own_retry_and_time_out(app: Holdfast) -> None:
    """Policy lives in the store: what the queue says of its jobs is declared there."""
    queue = app.queue("mail", handler="plain_handlers:broken", retry=Retry(failures=2, initial=0.01), timeout=5)
    async with app:
        handle = await queue.enqueue("it")
        await burst(app)
        job = await handle.job()
        assert (job.state, job.counters) == (State.FAILED, Counters(attempts=2, failures=2))
        with pytest.raises(JobFailed, match="ValueError: cannot do it"):
            await handle.result()
        assert (await app.store.policies("mail"))[""].timeout_ms == 5000


async def test_many_payloads_from_generators(app: Holdfast) -> None:
    queue = app.queue("mail", handler="plain_handlers:echo")

    async def payloads() -> AsyncIterator[int]:
        for n in range(700):
            yield n

    async with app:
        assert await queue.enqueue_many({"n": n} for n in range(1500)) == EnqueueCounts(queued=1500)
        assert await queue.enqueue_many(payloads(), chunk=50) == EnqueueCounts(queued=700)
        with pytest.raises(PayloadError, match=r"payloads\[0\]\.x"):
            await queue.enqueue_many([{"x": object()}])
        assert (await burst(app, slots=50)).completed == 2200


@pytest.mark.parametrize(
    ("handler", "problem"),
    [
        ("plain_handlers:nothing", "'plain_handlers:nothing': the module plain_handlers has no nothing"),
        ("no_such_module:x", "'no_such_module:x' cannot be imported: No module named 'no_such_module'"),
        ("plain_broken:x", "'plain_broken:x' cannot be imported: RuntimeError: this module is broken"),
        ("plain_handlers:NOT_CALLABLE", "'plain_handlers:NOT_CALLABLE' is no function but a int"),
    ],
)
async def test_a_worker_whose_handler_cannot_be_found_does_not_start(app: Holdfast, handler: str, problem: str) -> None:
    queue = app.queue("mail", handler=handler)
    async with app:
        handle = await queue.enqueue({})
        with pytest.raises(ConfigError) as caught:
            await burst(app)
        assert str(caught.value) == problem
        assert (await handle.job()).counters == Counters()


@pytest.mark.parametrize("handler", ["plain_handlers", ":", "a:", ":b", "a b:c", 5, b"a:b", ["a:b"]])
def test_a_handler_that_is_no_import_path_is_refused_at_once(app: Holdfast, handler: Any) -> None:
    with pytest.raises(ConfigError, match=r"queue 'mail': handler=.* is no import path; write package\.module:name"):
        app.queue("mail", handler=handler)


async def test_a_payload_for_which_a_worker_has_no_handler_is_released_and_reported(app: Holdfast) -> None:
    heard: list[HookEvent] = []
    app.on("worker_error")(heard.append)
    queue = app.queue("mail")
    app.queue("good", handler="plain_handlers:echo")
    async with working(app, "mail", "good"):
        handle = await queue.enqueue({})
        assert await app.queue("good").call(1) == {"got": 1}, "the worker goes on"
        await eventually(lambda: _released(handle))
    assert [happening.detail for happening in heard] == ["no handler"]


async def _released(handle: Any) -> bool:
    job = await handle.job()
    free = Counters(attempts=job.counters.attempts)  # it costs nothing
    return job.state is State.SCHEDULED and job.counters == free


async def test_codecs_by_queue(app: Holdfast) -> None:
    queue = app.queue("mail", handler="plain_handlers:echo", codec="msgpack", result_codec="msgpack")
    async with working(app):
        assert await queue.call({"raw": b"\x00"}) == {"got": {"raw": b"\x00"}}


def test_declaring_a_queue_twice_adds_up(app: Holdfast) -> None:
    app.queue("mail", handler="plain_handlers:echo", retry=Retry(failures=9), concurrency=4)
    app.queue("mail", timeout=7, priority=3)
    (declaration,) = app.registry.declarations(("mail",))
    assert declaration.settings == {"concurrency": 4, "priority": 3}
    assert declaration.tasks[""].retry.failures == 9
    assert declaration.tasks[""].timeout_ms == 7000


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"speed": 3}, "'speed' is not a setting of a queue; known are paused, priority, concurrency"),
        ({"concurrency": 0}, "concurrency=0: a whole number from 1 to 1000000000, or None for no limit"),
        ({"priority": 5000}, "priority=5000: a whole number from -1000 to 1000"),
        ({"result_ttl": -1}, "result_ttl=-1: give seconds from 0 on, or a timedelta"),
        ({"paused": "yes"}, "queue setting: Expected `bool`, got `str`"),
        ({"history": "all"}, "queue setting: "),
        ({"retry": 3}, "queue 'mail': retry=3: give Retry(failures=...)"),
        ({"timeout": 0}, "queue 'mail': timeout=0 leaves no time to run"),
        ({"codec": "pickle"}, "pickle"),
    ],
)
def test_a_bad_queue_setting_gives_one_clear_line(app: Holdfast, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        app.queue("mail", **settings)
    assert message in str(caught.value)


async def test_operators_settings_are_checked(app: Holdfast) -> None:
    queue = app.queue("mail")
    async with app:
        with pytest.raises(ConfigError, match="'speed' is not a setting of a queue"):
            await queue.set(speed=1)
        with pytest.raises(ConfigError, match="concurrency=0: a whole number from 1 to 1000000000, or None"):
            await queue.limit_key("ann", 0)
        assert (await queue.set(result_ttl=timedelta(minutes=1))).result_ttl_ms == 60_000
        assert (await queue.set(clear=["result_ttl"])).result_ttl_ms == 3_600_000
        with pytest.raises(ConfigError, match="'speed' is not a setting of a queue"):
            await queue.set(clear=["speed"])


@pytest.mark.parametrize("name", ["", "x" * 256, "\ud800"])
def test_a_bad_queue_name(app: Holdfast, name: str) -> None:
    with pytest.raises(ConfigError, match="a queue's name has 1 to 255 bytes"):
        app.queue(name)


async def test_two_keys_take_turns_and_key_limits_hold(app: Holdfast) -> None:
    app.queue("mail", handler="plain_handlers:echo", key_concurrency=1)
    async with app:
        for n in range(3):
            await app.queue("mail").enqueue(n, key="busy", job_id=f"busy-{n}")
        await app.queue("mail").enqueue(9, key="rare", job_id="rare")
        await burst(app, slots=1)
        order = [event.id async for event in app.events() if event.transition == "claim"]
    assert order == ["busy-0", "rare", "busy-1", "busy-2"]


async def test_callers_of_a_plain_queue_share_a_run(app: Holdfast) -> None:
    queue = app.queue("mail", handler="plain_handlers:echo")
    async with app:
        calls = [asyncio.create_task(queue.call(n, job_id="x")) for n in (1, 1, 1)]
        await eventually(lambda: app.store.get("mail", "x"))
        await burst(app)
        assert await asyncio.gather(*calls) == [{"got": 1}] * 3
