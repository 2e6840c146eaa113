"""Assertions on what was enqueued, failures on purpose, and time travel."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast import ConfigError, Every, Holdfast, HoldfastError, Job, Retry
from holdfast.testing import (
    ManualClock,
    advance_to_next,
    assert_enqueued,
    assert_not_enqueued,
    drain,
    failing,
    run_one,
    travel,
)

Isolate = Callable[[Holdfast], Holdfast]


@dataclass
class Letter:
    to: str
    pages: int = 1


def shop(isolate: Isolate) -> tuple[Holdfast, Any, Any]:
    app = isolate(Holdfast("memory://"))

    @app.task(queue="mail", retry=Retry(failures=3, initial=10, multiplier=2))
    async def send(letter: Letter, *rest: int, urgent: bool = False, **more: str) -> str:
        return letter.to

    @app.task()
    def plain(n: int) -> int:
        return n

    return app, send, plain


# --- what was enqueued


async def test_a_job_is_found_by_its_whole_call_and_its_options(holdfast_isolate: Isolate) -> None:
    app, send, _ = shop(holdfast_isolate)
    async with app:
        options = {"job_id": "a", "priority": 4, "key": "k", "tags": ["x", "y"], "headers": {"h": "1"}, "delay": 60}
        await send.options(**options).enqueue(Letter("ann"), 1, 2, urgent=True, colour="red")
        job = await assert_enqueued(
            app, send, [Letter("ann"), 1, 2], {"urgent": True, "colour": "red"},
            job_id="a", priority=4, key="k", tags=["y"], headers={"h": "1"}, delay=60, state="scheduled",
            run_at=datetime(2023, 11, 14, 22, 14, 20, tzinfo=UTC), times=1,
        )  # fmt: skip
        assert job.id == "a"
        assert send.decode_args(job) == {
            "letter": Letter("ann"), "rest": [1, 2], "urgent": True, "more": {"colour": "red"},
        }  # fmt: skip
        await assert_enqueued(app, send, containing={"urgent": True})
        await assert_enqueued(app, send)
        await assert_not_enqueued(app, send, [Letter("ann")])
        await assert_not_enqueued(app, send, job_id="b")


async def test_a_job_that_has_run_was_enqueued_too(holdfast_isolate: Isolate) -> None:
    app, _, plain = shop(holdfast_isolate)
    async with app:
        for n in range(3):
            await plain.enqueue(n)
        await drain(app)
        await assert_enqueued(app, plain, [1], state="completed")
        await assert_enqueued(app, plain, times=3)


async def fails(awaitable: Any) -> str:
    with pytest.raises(AssertionError) as caught:
        await awaitable
    return re.sub(r"[0-9a-f]{32}", "ID", str(caught.value))


async def test_near_misses_are_told_nearest_first(holdfast_isolate: Isolate) -> None:
    app, send, plain = shop(holdfast_isolate)
    async with app:
        assert await fails(assert_enqueued(app, plain)) == "plain(...) was not enqueued; there is no job at all"
        await send.options(job_id="far", priority=1).enqueue(Letter("bob"), colour="red")
        await send.options(job_id="near").enqueue(Letter("ann", pages=2))
        assert await fails(assert_enqueued(app, plain, [5])) == "plain(5) was not enqueued; there is 2 of send"
        told = await fails(assert_enqueued(app, send, [Letter("ann")], {"urgent": True}, priority=0))
        assert told.splitlines() == [
            "send(Letter(to='ann', pages=1), urgent=True) with priority=0 was not enqueued; of send there is",
            "  mail/near (waiting): letter is Letter(to='ann', pages=2), not Letter(to='ann', pages=1); "
            "urgent is not given",
            "  mail/far (waiting): letter is Letter(to='bob', pages=1), not Letter(to='ann', pages=1); "
            "urgent is not given; more is given, {'colour': 'red'}; priority is 1, not 0",
        ]
        told = await fails(assert_not_enqueued(app, send, containing={"letter": Letter("bob")}))
        assert told == "send(letter=Letter(to='bob', pages=1), ...) was enqueued once\n  mail/far (waiting)"
        told = await fails(assert_enqueued(app, send, times=3))
        assert told == "send(...) was enqueued 2 times, not 3 times\n  mail/near (waiting)\n  mail/far (waiting)"


async def test_a_long_list_of_near_misses_is_cut(holdfast_isolate: Isolate) -> None:
    app, _, plain = shop(holdfast_isolate)
    async with app:
        for n in range(8):
            await plain.enqueue(n)
        assert (await fails(assert_enqueued(app, plain, [9]))).endswith("\n  and 3 others")


async def test_wrong_questions_are_refused(holdfast_isolate: Isolate) -> None:
    app, send, plain = shop(holdfast_isolate)
    async with app:
        job = await (await plain.enqueue(1)).job()
        with pytest.raises(ConfigError, match=r"is a job of plain, not of send: decode it with its own task"):
            send.decode_args(job)
        with pytest.raises(ConfigError, match=r"times=0: at least 1; assert_not_enqueued says that there is none"):
            await assert_enqueued(app, plain, times=0)
        with pytest.raises(ConfigError, match=r"assert_enqueued: 'prio' is no option of it; known are job_id, delay"):
            await assert_enqueued(app, plain, prio=1)  # type: ignore[call-arg]
        with pytest.raises(TypeError, match=r"plain\(\) missing 1 required positional argument: 'n'"):
            await assert_enqueued(app, plain, [])


# --- one job, and its failure


async def test_one_job_runs_and_what_it_enqueues_waits(holdfast_isolate: Isolate) -> None:
    app, _, plain = shop(holdfast_isolate)

    @app.task()
    async def twice(n: int) -> None:
        await plain.enqueue(n)

    async with app:
        await twice.enqueue(1)
        assert (await run_one(app)).task == "twice"
        assert (await run_one(app)).task == "plain"
        assert await fails(run_one(app)) == "nothing is due now; and nothing is due later"
        await plain.options(job_id="x", delay=90).enqueue(1)
        assert await fails(run_one(app)) == "nothing is due now; default/x is due in 90 s"
        assert await app.workers() == []


async def test_a_handler_fails_on_purpose_as_often_as_said(
    holdfast_isolate: Isolate, holdfast_clock: ManualClock
) -> None:
    app, send, plain = shop(holdfast_isolate)
    async with app:
        await send.enqueue(Letter("ann"))
        await plain.enqueue(1)
        with failing(send.options(key="k"), OSError("away"), times=2), failing(plain, ValueError("no")):
            ran = await drain(app)
            assert sorted((each.task or "", each.outcome, str(each.error)) for each in ran) == [
                ("plain", "retried", "no"), ("send", "retried", "away"),
            ]  # fmt: skip
            assert await advance_to_next(app, holdfast_clock) == 2
            assert (await run_one(app)).outcome == "retried"
            assert await advance_to_next(app, holdfast_clock) == 4
            assert (await run_one(app)).outcome == "failed"
            assert await advance_to_next(app, holdfast_clock) == 4
            assert str((await run_one(app)).error) == "away"
            assert await advance_to_next(app, holdfast_clock) == 20
            assert (await run_one(app)).result == "ann", "it was to fail twice"
        await plain.enqueue(2)
        assert (await run_one(app)).result == 2


def test_a_handler_in_another_process_is_out_of_reach() -> None:
    app = Holdfast("memory://")
    task = app.task(executor="process")(a_function)
    with (
        pytest.raises(ConfigError, match=r"failing\(a_function\): its handler runs in a process of its own"),
        failing(task, ValueError()),
    ):
        pass


def a_function() -> None: ...


# --- time travel


async def test_a_time_passes_and_everything_runs_when_it_is_due(
    holdfast_isolate: Isolate, holdfast_clock: ManualClock
) -> None:
    app, _, plain = shop(holdfast_isolate)
    times: list[float] = []

    @app.task(retry=Retry(failures=2, initial=100))
    async def note(job: Job) -> None:
        times.append((holdfast_clock.now_ms - start) / 1000)
        if job.attempt == 1:
            raise ValueError("once more")

    app.schedule("ticks", Every(3600), plain.args(1))
    start = holdfast_clock.now_ms
    async with app:
        await note.options(delay=50).enqueue()
        ran = await travel(app, holdfast_clock, 7200)
        assert times == [50, 150]
        assert [each.task for each in ran] == ["note", "note", "plain", "plain"]
        assert holdfast_clock.now_ms == start + 7_200_000
        assert await travel(app, holdfast_clock, 0) == []


async def test_where_nothing_comes_there_is_nowhere_to_go(
    holdfast_isolate: Isolate, holdfast_clock: ManualClock
) -> None:
    app, _, plain = shop(holdfast_isolate)
    async with app:
        told = await fails(advance_to_next(app, holdfast_clock))
        assert told == "nothing is due later: no job is scheduled, and no schedule has a tick to come"
        app.schedule("often", Every(0.1), plain.args(1))
        with pytest.raises(
            HoldfastError, match=r"travel\(\) has stopped 3 times on its way: let less time pass at once"
        ):
            await travel(app, holdfast_clock, 3600, limit=3)


async def test_a_job_of_a_paused_queue_does_not_hold_the_clock_up(
    holdfast_isolate: Isolate, holdfast_clock: ManualClock
) -> None:
    app, send, plain = shop(holdfast_isolate)
    async with app:
        await app.queue("mail").pause()
        await send.options(delay=10).enqueue(Letter("ann"))
        await plain.options(delay=20).enqueue(1)
        assert [each.task for each in await travel(app, holdfast_clock, 60)] == ["plain"]


def test_the_clock_goes_to_an_instant_and_never_back() -> None:
    clock = ManualClock(0)
    assert clock.advance_to(datetime(1970, 1, 2, tzinfo=UTC)) == 86_400_000
    with pytest.raises(ValueError, match="only goes forwards"):
        clock.advance_to(5.0)
