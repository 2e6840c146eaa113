"""The event log: one event for each transition, in commit order, read from any position."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support import burst, working

from holdfast import ConfigError, Counters, Event, Holdfast, Job, Retry, State


async def collect(events: Any, count: int) -> list[Event]:
    """Return the next events of a follower."""
    found: list[Event] = []
    async for event in events:
        found.append(event)
        if len(found) == count:
            break
    await events.aclose()
    return found


async def test_the_life_of_a_job_in_events(app: Holdfast) -> None:
    @app.task(retry=Retry(initial=0.01))
    async def flaky(job: Job) -> None:
        if job.attempt == 1:
            raise ValueError("no")

    async with app:
        handle = await flaky.options(job_id="x", key="ann", priority=3).enqueue()
        await burst(app)
        events = [event async for event in app.events()]
    assert [(event.transition, event.state, event.attempt) for event in events] == [
        ("enqueue", State.WAITING, 0),
        ("claim", State.ACTIVE, 1),
        ("retry", State.SCHEDULED, 1),
        ("promote", State.WAITING, 1),
        ("claim", State.ACTIVE, 2),
        ("complete", State.COMPLETED, 2),
    ]
    assert {(event.queue, event.id, event.run, event.task) for event in events} == {
        ("default", "x", handle.run, "flaky")
    }
    assert {(event.key, event.priority) for event in events} == {("ann", 3)}
    retry = events[2]
    assert (retry.cause, retry.error_type, retry.counters) == (
        "failure",
        "ValueError",
        Counters(attempts=1, failures=1),
    )
    assert retry.error_signature
    assert retry.run_ms is not None
    assert events[1].wait_ms is not None
    assert events[1].worker == retry.worker
    assert events[1].worker
    assert [event.at_ms for event in events] == sorted(event.at_ms for event in events)


async def test_a_reader_goes_on_from_its_position(app: Holdfast) -> None:
    queue = app.queue("mail")
    async with app:
        for n in range(5):
            await queue.enqueue(n, job_id=str(n))
        first = [event async for event in app.events()]
        rest = [event.id async for event in app.events(after=first[2].position)]
        assert rest == ["3", "4"]
        assert [event.id async for event in app.events(after=first[-1].position)] == []
        with pytest.raises(ConfigError, match="position 'abc' is not one that the event log gave"):
            await collect(app.events(after="abc"), 1)


async def test_more_events_than_a_page_holds(app: Holdfast) -> None:
    queue = app.queue("mail")
    async with app:
        await queue.enqueue_many(range(2_500))
        assert len([event async for event in app.events()]) == 2_500


async def test_a_queue_has_only_its_own_events(app: Holdfast) -> None:
    async with app:
        await app.queue("a").enqueue(1, job_id="a")
        await app.queue("b").enqueue(1, job_id="b")
        assert [event.id async for event in app.queue("a").events()] == ["a"]
        assert [event.id async for event in app.events(queue="b")] == ["b"]


async def test_a_follower_hears_what_comes(app: Holdfast) -> None:
    @app.task()
    async def ping() -> None: ...

    async with working(app):
        await ping.call()
        last = [event async for event in app.events()][-1]
        following = asyncio.create_task(collect(app.events(after=last.position, follow=True), 3))
        handle = await ping.options(job_id="x").enqueue()
        await handle.result()
        assert [event.transition for event in await following] == ["enqueue", "claim", "complete"]
        assert [event async for event in app.events(after="end")] == []


async def test_payloads_are_in_the_log_only_where_a_queue_keeps_them(app: Holdfast) -> None:
    @app.task(queue="kept")
    async def kept(n: int) -> None: ...

    @app.task(queue="plain")
    async def plain(n: int) -> None: ...

    app.queue("kept", history="payloads")
    async with app:
        await burst(app)  # declares what the app says of its queues
        await kept.enqueue(1)
        await plain.enqueue(2)
        assert [event.payload async for event in app.events(queue="kept")] == [b'{"n":1}']
        assert [event.payload async for event in app.events(queue="plain")] == [None]


async def test_what_was_refused_leaves_no_event(app: Holdfast) -> None:
    async with app:
        await app.queue("mail").enqueue(1, job_id="x")
        await app.queue("mail").enqueue(2, job_id="x")
        await app.queue("mail").cancel("nobody")
        assert [event.transition async for event in app.events()] == ["enqueue"]
