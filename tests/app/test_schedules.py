"""Schedules as users meet them: declared in code or added live, fired by workers and by `drain`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from support import Flaky, burst, eventually, run, working

from holdfast import (
    At,
    ConfigError,
    Cron,
    Dedup,
    Every,
    Holdfast,
    HookEvent,
    Job,
    PolicyConflict,
    ScheduleMissing,
    StoreError,
    Task,
)
from holdfast.store.contract import ScheduleChange
from holdfast.testing import ManualClock, drain
from holdfast.worker.upkeep.ticker import Ticker

Isolate = Callable[[Holdfast], Holdfast]
MINUTE = 60.0
"""What is in a store of the version before schedules: one job."""


def beating(app: Holdfast, ran: list[Job] | None = None) -> Task[[str], str]:
    """Return a task that notes its jobs."""

    @app.task(queue="beats")
    async def beat(job: Job, word: str) -> str:
        if ran is not None:
            ran.append(job)
        return word

    return beat


async def add_soon(app: Holdfast, call: Any, seconds: float = 0.05) -> None:
    """A schedule has one tick, a moment from now; a later one where the machine was too slow for that."""
    while True:
        try:
            await app.schedules.add("s", At(datetime.now(UTC) + timedelta(seconds=seconds)), call)
            return
        except ConfigError as passed:
            if "has passed" not in str(passed):
                raise
            seconds *= 4


# --- what a tick enqueues


async def test_a_tick_enqueues_one_job_that_knows_its_schedule(
    holdfast_isolate: Isolate, holdfast_clock: ManualClock
) -> None:
    app, ran = holdfast_isolate(Holdfast("memory://")), []
    beat = beating(app, ran)
    app.schedule("every minute", Every(MINUTE), beat.options(priority=3, headers={"a": "b"}).args("x"))
    async with app:
        assert await drain(app) == []
        first = (await app.schedules.get("every minute")).next_at
        assert first is not None
        holdfast_clock.advance(MINUTE)
        (job,) = await drain(app)
        assert (job.id, job.result) == (f"every minute/{first:%Y-%m-%dT%H:%M:%SZ}", "x")
        assert (ran[0].schedule, ran[0].tick, ran[0].priority) == ("every minute", first, 3)
        assert ran[0].headers["a"] == "b"
        assert await drain(app) == []
        schedule = await app.schedules.get("every minute")
        assert (schedule.fired, schedule.last_at, schedule.next_at) == (1, first, first + timedelta(minutes=1))


async def test_a_job_of_no_schedule_has_neither_schedule_nor_tick(holdfast_isolate: Isolate) -> None:
    app, ran = holdfast_isolate(Holdfast("memory://")), []
    async with app:
        await beating(app, ran).enqueue("x")
        await drain(app)
    assert (ran[0].schedule, ran[0].tick) == (None, None)


@pytest.mark.parametrize(("catch_up", "jobs"), [("one", 1), ("all", 10), ("skip", 0)])
async def test_ticks_that_nobody_saw_are_caught_up_by_the_rule(
    holdfast_isolate: Isolate, holdfast_clock: ManualClock, catch_up: Any, jobs: int
) -> None:
    app = holdfast_isolate(Holdfast("memory://"))
    app.schedule(
        "s", Every(MINUTE, anchor=holdfast_clock.now_ms / 1000), beating(app).args("x"), catch_up=catch_up, grace=5
    )
    async with app:
        await drain(app)
        holdfast_clock.advance(10 * MINUTE + 30)
        ran = await drain(app)
        assert len(ran) == len({job.id for job in ran}) == jobs
        holdfast_clock.advance(30)
        assert len(await drain(app)) == 1


async def test_a_plain_payload_can_be_scheduled(holdfast_isolate: Isolate, holdfast_clock: ManualClock) -> None:
    app = holdfast_isolate(Holdfast("memory://"))
    async with app:
        await app.schedules.add("plain", Every(MINUTE), app.queue("raw").args({"a": 1}, key="k"))
        holdfast_clock.advance(MINUTE)
        await drain(app, ["raw"])
        (job,) = (await app.jobs(queue="raw")).jobs
        assert (job.task, job.payload, job.key) == (None, b'{"a":1}', "k")


# --- overlaps


async def overlapping(app: Holdfast, clock: ManualClock, overlap: Any) -> list[str]:
    """Return the ids in the order in which they ran, where a tick comes before the job of the last one has run."""
    await app.schedules.add("s", Every(MINUTE), beating(app).args("x"), overlap=overlap)
    for _ in range(2):
        clock.advance(MINUTE)
        await Ticker(app.store, app.registry, ("beats",), app.hooks, 1.0).round()
    return [job.id for job in await drain(app)]


async def test_jobs_of_several_ticks_may_wait_side_by_side(
    holdfast_isolate: Isolate, holdfast_clock: ManualClock
) -> None:
    async with holdfast_isolate(Holdfast("memory://")) as app:
        assert len(set(await overlapping(app, holdfast_clock, "allow"))) == 2


async def test_a_tick_is_skipped_while_the_job_of_the_last_is_unfinished(
    holdfast_isolate: Isolate, holdfast_clock: ManualClock
) -> None:
    async with holdfast_isolate(Holdfast("memory://")) as app:
        assert len(await overlapping(app, holdfast_clock, "skip")) == 1
        holdfast_clock.advance(MINUTE)
        assert len(await drain(app)) == 1


async def test_a_tick_follows_the_job_of_the_last_under_one_id(
    holdfast_isolate: Isolate, holdfast_clock: ManualClock
) -> None:
    async with holdfast_isolate(Holdfast("memory://")) as app:
        assert await overlapping(app, holdfast_clock, "successor") == ["s"]
        holdfast_clock.advance(MINUTE)
        assert [job.id for job in await drain(app)] == ["s"]


async def test_a_job_that_waits_keeps_its_place_when_the_next_tick_comes(
    holdfast_isolate: Isolate, holdfast_clock: ManualClock
) -> None:
    async with holdfast_isolate(Holdfast("memory://")) as app:
        beat, ticker = beating(app), Ticker(app.store, app.registry, ("beats",), app.hooks, 1.0)
        await app.schedules.add("s", Every(MINUTE), beat.args("x"), overlap="successor")
        holdfast_clock.advance(MINUTE)
        await ticker.round()
        holdfast_clock.advance(1)
        await beat.options(job_id="later").enqueue("y")
        holdfast_clock.advance(MINUTE)
        await ticker.round()
        assert [job.id for job in await drain(app)] == ["s", "later"]


async def test_a_tick_while_the_job_runs_makes_it_run_once_more(url: str) -> None:
    app, starts, go = Holdfast(url), [], asyncio.Event()

    @app.task(queue="slow")
    async def slow(job: Job) -> None:
        starts.append(job.run)
        await go.wait()

    async with working(app, lease=1.0):
        await app.schedules.add("slow", Every(0.1), slow.args(), overlap="successor")
        await eventually(lambda: starts)
        await eventually(lambda: _fired(app, "slow", 4))
        assert len(starts) == 1
        await app.schedules.remove("slow")
        go.set()
        await eventually(lambda: len(starts) == 2)
    assert len(await _jobs(app, "slow")) == 2


async def _fired(app: Holdfast, name: str, count: int) -> bool:
    return (await app.schedules.get(name)).fired >= count


async def _jobs(app: Holdfast, queue: str) -> list[Any]:
    async with app:
        return (await app.jobs(queue=queue)).jobs


# --- workers


async def test_several_workers_fire_each_tick_once(url: str) -> None:
    ran: list[Job] = []
    apps = [Holdfast(url) for _ in range(3)]
    for app in apps:
        app.schedule("s", Every(0.1), beating(app, ran).args("x"), catch_up="all")
    async with working(apps[0]), working(apps[1]), working(apps[2]):
        await eventually(lambda: len(ran) >= 12)
        await apps[0].schedules.pause("s")
        schedule = await apps[0].schedules.get("s")
        await eventually(lambda: len(ran) >= schedule.fired)
        ticks = sorted(job.tick for job in ran if job.tick)
        assert len(ran) == schedule.fired
        assert ticks == [ticks[0] + number * timedelta(seconds=0.1) for number in range(len(ticks))]
        enqueued = [event.id async for event in apps[0].events() if event.transition == "enqueue"]
        assert len(enqueued) == len(set(enqueued)) == schedule.fired


async def test_what_is_changed_in_another_process_is_seen(url: str) -> None:
    app, other, ran = Holdfast(url), Holdfast(url), []
    beating(app, ran)
    call = beating(other).args("x")
    async with working(app, lease=0.3), other:
        await add_soon(other, call)
        await eventually(lambda: ran)
        assert await other.schedules.list() == []  # it was there for one tick


async def test_what_is_changed_in_this_process_is_seen_at_once(app: Holdfast) -> None:
    ran: list[Job] = []
    beat = beating(app, ran)
    async with working(app) as running:
        assert len(app.schedules.bells) == 1
        await add_soon(app, beat.args("x"))
        await eventually(lambda: ran)
        await running.end()
        assert not app.schedules.bells


async def test_jobs_do_not_make_a_worker_look_at_its_schedules() -> None:
    flaky = Flaky(Holdfast("memory://").store)
    app = Holdfast(store=flaky)
    beat = beating(app)
    app.schedule("yearly", Cron("0 0 1 1 *"), beat.args("x"))
    async with working(app):
        await eventually(lambda: "due" in flaky.calls)
        for _ in range(50):
            await beat.call("x")
        assert flaky.calls.count("due") <= 3


async def test_a_burst_fires_what_is_due(holdfast_isolate: Isolate, holdfast_clock: ManualClock) -> None:
    app = holdfast_isolate(Holdfast("memory://"))
    app.schedule("s", Every(MINUTE), beating(app).args("x"))
    await burst(app)
    holdfast_clock.advance(MINUTE)
    assert (await burst(app)).completed == 1


@pytest.mark.parametrize("trouble", ["lose", "refuse"])
async def test_a_tick_whose_reply_was_lost_is_neither_lost_nor_doubled(trouble: str) -> None:
    flaky, ran = Flaky(Holdfast("memory://").store), []
    app = Holdfast(store=flaky)
    beat = beating(app, ran)
    async with working(app, lease=0.3):
        await add_soon(app, beat.args("x"), 0.5)  # after the next line
        getattr(flaky, trouble)("put_schedule", StoreError("the line is down"))
        await eventually(lambda: ran)
        await eventually(lambda: not flaky.left("put_schedule"))
        await eventually(lambda: _gone(app))
        assert len(ran) == 1


async def _gone(app: Holdfast) -> bool:
    return await app.schedules.list() == []


async def test_a_schedule_that_cannot_be_read_is_reported_once_and_stops_no_other(
    app: Holdfast, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[Job] = []
    heard: list[HookEvent] = []
    app.on("worker_error")(heard.append)
    beat = beating(app, ran)
    async with app:
        change = ScheduleChange(
            queue="beats", name="broken", expected=None, revision="r", next_at_ms=1, body=b"\xc1 from the future"
        )
        await app.store.put_schedule(change)
        await app.schedules.add("good", Every(0.1), beat.args("x"))
        assert [schedule.name for schedule in await app.schedules.list()] == ["good"]
        with caplog.at_level(logging.ERROR, "holdfast"):
            async with working(app):
                await eventually(lambda: len(ran) >= 3)
        assert await app.schedules.remove("broken") is None
    told = [each.detail for each in heard]
    assert len(told) == 1
    assert "schedule 'broken' of queue 'beats' cannot be read here" in told[0]


async def test_a_schedule_of_an_unknown_task_goes_on_and_is_reported(url: str) -> None:
    app, worker = Holdfast(url), Holdfast(url)
    heard: list[str] = []
    worker.on("worker_error")(lambda happening: heard.append(happening.detail))
    async with app, working(worker, "beats", lease=1.0):
        await app.schedules.add("s", Every(0.1), beating(app).args("x"))
        await eventually(lambda: _fired(app, "s", 3))
        await app.schedules.remove("s")
    assert heard.count("schedule 's': no task named 'beat' in this worker; another may know it") == 1


async def test_a_hook_hears_what_was_fired(holdfast_isolate: Isolate, holdfast_clock: ManualClock) -> None:
    app, heard = holdfast_isolate(Holdfast("memory://")), []
    app.on("schedule_fired")(heard.append)
    async with app:
        await app.schedules.add("s", Every(MINUTE), beating(app).args("x"))
        holdfast_clock.advance(MINUTE)
        (job,) = await drain(app)
    assert [(each.queue, each.id, each.detail) for each in heard] == [("beats", job.id, "s: queued")]


# --- changing them live


async def test_a_schedule_is_added_changed_paused_resumed_and_removed(
    holdfast_isolate: Isolate, holdfast_clock: ManualClock
) -> None:
    async with holdfast_isolate(Holdfast("memory://")) as app:
        beat = beating(app)
        added = await app.schedules.add("s", Every(MINUTE), beat.args("x"))
        assert await app.schedules.add("s", Every(MINUTE), beat.args("x")) == added
        with pytest.raises(ConfigError, match="there is a schedule 's' in queue 'beats' already"):
            await app.schedules.add("s", Every(30), beat.args("x"))
        changed = await app.schedules.change("s", spec=Every(30), call=beat.args("y"), catch_up="all", limit=3, grace=9)
        plan = changed.plan
        assert (plan.spec, plan.catch_up, plan.limit, plan.grace_ms) == (Every(30), "all", 3, 9000)
        paused = await app.schedules.pause("s")
        assert (paused.paused, paused.next_at) == (True, None)
        holdfast_clock.advance(MINUTE)
        assert await drain(app) == []
        assert (await app.schedules.resume("s")).next_at is not None
        holdfast_clock.advance(30)
        assert [job.result for job in await drain(app)] == ["y"]
        await app.schedules.remove("s")
        holdfast_clock.advance(MINUTE)
        assert (await drain(app), await app.schedules.list()) == ([], [])


async def test_trigger_runs_it_now_and_leaves_its_ticks_alone(holdfast_isolate: Isolate) -> None:
    async with holdfast_isolate(Holdfast("memory://")) as app:
        before = await app.schedules.add("s", Every(MINUTE), beating(app).args("x"))
        handles = [await app.schedules.trigger("s") for _ in range(2)]
        assert len(await drain(app)) == 2
        assert [await handle.result() for handle in handles] == ["x", "x"]
        after = await app.schedules.get("s")
        assert msgspec.structs.replace(after, revision=before.revision) == before


async def test_trigger_keeps_to_the_rule_for_overlaps(holdfast_isolate: Isolate) -> None:
    async with holdfast_isolate(Holdfast("memory://")) as app:
        await app.schedules.add("s", Every(MINUTE), beating(app).args("x"), overlap="skip")
        statuses = [(await app.schedules.trigger("s")).status for _ in range(2)]
        assert statuses == ["queued", "duplicate"]


async def test_people_change_what_code_declares_and_can_go_back(url: str) -> None:
    def deploy(spec: Every, version: int) -> Holdfast:
        app = Holdfast(url, version=version)
        app.schedule("s", spec, beating(app).args("x"))
        return app

    await burst(deploy(Every(3600), 1))
    app = deploy(Every(3600), 1)
    async with app:
        await app.schedules.change("s", spec=Every(60))
    await burst(deploy(Every(1800), 2))
    async with app:
        assert (await app.schedules.get("s")).spec == Every(60)
        assert (await app.schedules.change("s", clear=["spec"])).spec == Every(1800)
    await burst(deploy(Every(3600), 1))  # an older worker, which is ignored
    async with app:
        assert (await app.schedules.get("s")).spec == Every(1800)
    with pytest.raises(PolicyConflict, match=r"schedule 's' .*spec.seconds is 1800.0 in the store, and 7.0 here"):
        await burst(deploy(Every(7), 2))


async def test_many_change_one_schedule_and_every_change_counts(url: str) -> None:
    apps = [Holdfast(url) for _ in range(3)]
    async with apps[0], apps[1], apps[2]:
        await apps[0].schedules.add("s", Every(3600), beating(apps[0]).args("x"))
        await asyncio.gather(
            apps[0].schedules.change("s", limit=7),
            apps[1].schedules.change("s", grace=5),
            apps[2].schedules.change("s", catch_up="all"),
            apps[1].schedules.pause("s"),
        )
        schedule = await apps[0].schedules.get("s")
        assert (schedule.plan.limit, schedule.plan.grace_ms, schedule.plan.catch_up) == (7, 5000, "all")
        assert schedule.paused


def test_schedules_can_be_used_without_an_event_loop(url: str) -> None:
    app = Holdfast(url)
    with app.sync:
        app.sync(app.schedules.add("s", Cron("0 3 * * *", tz="Europe/Berlin"), beating(app).args("x")))
        assert [schedule.task for schedule in app.sync(app.schedules.list("beats"))] == ["beat"]


# --- what is refused


async def test_a_name_that_two_queues_have_needs_its_queue(app: Holdfast) -> None:
    async with app:
        for queue in ("a", "b"):
            await app.schedules.add("s", Every(60), app.queue(queue).args({}))
        with pytest.raises(ConfigError, match=r"schedule 's' in several queues \(a, b\): give queue="):
            await app.schedules.get("s")
        assert (await app.schedules.get("s", queue="b")).queue == "b"


async def test_a_schedule_that_is_not_there_is_missed(app: Holdfast) -> None:
    async with app:
        for call in (app.schedules.get, app.schedules.pause, app.schedules.trigger, app.schedules.remove):
            with pytest.raises(ScheduleMissing, match="there is no schedule 'nope' in queue 'q'"):
                await call("nope", queue="q")


def refused(app: Holdfast, told: str, name: str = "s", spec: Any = None, call: Any = None, **rules: Any) -> None:
    with pytest.raises(ConfigError, match=told):
        app.schedule(name, spec or Every(60), call, **rules)


def test_what_cannot_be_scheduled_is_refused(app: Holdfast) -> None:
    beat = beating(app)
    refused(app, r"schedule 's': 5: give Cron\(text\), Every\(seconds\) or At\(when\)", spec=5, call=beat.args("x"))
    refused(app, r"give a call, such as task.args\(...\)", call=beat)
    own = "job_id, delay, run_at and dedup are the schedule's own"
    refused(app, own, call=beat.options(job_id="j").args("x"))
    refused(app, own, call=beat.options(delay=5).args("x"))
    refused(app, own, call=beat.options(dedup=Dedup("k")).args("x"))
    refused(app, "blockers are for one job", call=beat.options(blockers=[("beats", "j")]).args("x"))
    refused(app, "use overlap= in place of on_conflict", call=beat.options(on_conflict="update").args("x"))
    refused(app, "a name is a string of at least one character", name="", call=beat.args("x"))
    refused(app, "a name is at most 255 bytes", name="x" * 256, call=beat.args("x"))
    refused(app, "overlap='no': 'allow', 'skip' or 'successor'", call=beat.args("x"), overlap="no")
    app.schedule("s", Every(60), beat.args("x"))
    refused(app, "there is a schedule named 's' in queue 'beats' already", call=beat.args("x"))


async def test_what_cannot_be_changed_is_refused(app: Holdfast) -> None:
    beat = beating(app)
    async with app:
        await app.schedules.add("s", Every(60), beat.args("x"))
        with pytest.raises(ConfigError, match="is in queue 'beats', and the call for 'other': add another"):
            await app.schedules.change("s", call=app.queue("other").args({}))
        with pytest.raises(ConfigError, match="'colour' is nothing that a schedule has; known are spec, call"):
            await app.schedules.change("s", clear=["colour"])
        with pytest.raises(ConfigError, match="declared by no code"):
            await app.schedules.change("s", clear=["spec"])
        with pytest.raises(ConfigError, match="schedule 'once': at 1970-01-01T00:00:00Z has passed; to run it now"):
            await app.schedules.add("once", At(0), beat.args("x"))
        with pytest.raises(ConfigError, match="schedule 's': at 1970-01-01T00:00:00Z has passed"):
            await app.schedules.change("s", spec=At(0))
        with pytest.raises(ConfigError, match=r"schedule 's': '\* \* \* \* \*': give Cron\(text\), Every"):
            await app.schedules.change("s", spec="* * * * *")  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="limit=0: a whole number"):
            await app.schedules.change("s", limit=0)


def test_the_next_ticks_of_a_schedule_are_told(app: Holdfast) -> None:
    async def ask() -> list[datetime]:
        async with app:
            added = await app.schedules.add("s", Cron("0 0 1 1 *"), beating(app).args("x"))
            return added.upcoming(2)

    first, second = run(ask())
    assert (first.month, first.day, second.year - first.year) == (1, 1, 1)
