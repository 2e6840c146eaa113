"""Jobs that take several slots of their worker, and what an app says of all its tasks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import places
import pytest
from support import Gate, burst, eventually, working
from whole_handlers import pid_of

from holdfast import ConfigError, Holdfast, HookEvent, Sandbox


@pytest.fixture(params=["sqlite", "redis", "postgres"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Holdfast]:
    """An app on an empty store of each kind."""
    with places.place(request.param, tmp_path) as url:
        yield Holdfast(url)


class Load:
    """How many slots are taken at once, by handlers that say so."""

    def __init__(self) -> None:
        self.now = self.most = self.heavy = 0
        self.endless = False
        """Each light job leaves another behind."""

    @contextlib.asynccontextmanager
    async def of(self, slots: int) -> Any:
        """The block takes so many."""
        self.now += slots
        self.most = max(self.most, self.now)
        for _ in range(3):  # others have their turn
            await asyncio.sleep(0)
        yield
        self.now -= slots


def declare(app: Holdfast, load: Load) -> tuple[Any, Any]:
    """Return a task that takes three slots, and one that takes one."""

    @app.task(queue="heavy", size=3)
    async def heavy(n: int) -> int:
        async with load.of(3):
            load.heavy += 1
            return n

    @app.task(queue="light")
    async def light(n: int) -> int:
        async with load.of(1):
            if load.endless:
                await light.enqueue(n)
            return n

    return heavy, light


async def test_heavy_coroutines_take_their_slots_and_no_more_are_taken_than_there_are(app: Holdfast) -> None:
    load = Load()
    heavy, light = declare(app, load)
    async with app:
        await heavy.enqueue_many(heavy.args(n) for n in range(30))
        await light.enqueue_many(light.args(n) for n in range(60))
        assert (await burst(app, slots=7)).completed == 90
    assert load.most <= 7
    assert heavy.policy().size == 3


async def test_a_heavy_job_is_not_starved_by_a_backlog_of_light_ones(app: Holdfast) -> None:
    load = Load()
    heavy, light = declare(app, load)
    load.endless = True
    async with working(app, slots=3):
        await light.enqueue_many(light.args(n) for n in range(50))
        assert [await heavy.call(n) for n in range(5)] == [0, 1, 2, 3, 4]
        load.endless = False
    assert load.most <= 3


async def test_a_worker_of_heavy_jobs_alone_is_woken_for_as_many_as_fit(app: Holdfast) -> None:
    """On Redis an idle worker of one queue is given jobs with its wake-up."""
    load, pair = Load(), asyncio.Barrier(2)

    @app.task(queue="heavy", size=3)
    async def heavy(n: int) -> int:
        async with load.of(3):
            await pair.wait()
            return n

    async with working(app, "heavy", slots=7, poll=60):
        for _ in range(3):
            jobs = [await heavy.enqueue(n) for n in range(6)]
            assert [await job.result() for job in jobs] == list(range(6))
    assert load.most == 6


async def test_thread_handlers_take_their_slots_until_they_return(app: Holdfast, gate: Gate) -> None:
    started: list[int] = []

    @app.task(queue="threads", size=2)
    def block(n: int) -> None:
        started.append(n)
        with open(str(gate), "rb", buffering=0) as pipe:
            pipe.read(1)

    async with working(app, slots=5) as running:
        for n in range(4):
            await block.enqueue(n)
        await eventually(lambda: len(started) == 2)
        assert running.worker._run is not None
        assert running.worker._run.parts.runner.free == 1
        gate.open(4)
        await eventually(lambda: len(started) == 4)


def test_a_job_that_takes_more_slots_than_its_worker_has_is_refused_at_the_start() -> None:
    app = Holdfast("memory://")
    app.task(name="huge", size=11)(pid_of)
    with pytest.raises(
        ConfigError, match=r"task 'huge': size=11: its jobs take more slots than this worker's 10: .*slots=11"
    ):
        app.sync(app.worker().run(burst=True))
    app.sync(app.worker(slots=11).run(burst=True))


async def test_a_huge_task_that_is_declared_late_is_told_of() -> None:
    app, heard = Holdfast("memory://"), []
    app.queue("first", handler=lambda payload: payload)

    def hear(happening: HookEvent) -> None:
        heard.append(happening)

    app.on("worker_error")(hear)
    async with working(app, slots=2) as running:
        app.task(name="huge", queue="late", size=3)(pid_of)
        await eventually(lambda: heard)
        assert running.worker.queues == ("first",)


# --- what an app says of all


def test_an_app_says_where_and_how_its_handlers_run() -> None:
    app = Holdfast("memory://", executor="process", size=25, timeout=9)
    app.queue("near", executor="thread")
    app.queue("small", size=5)
    tasks = {
        "plain": app.task()(pid_of), "near": app.task(name="near", queue="near")(pid_of),
        "small": app.task(name="small", queue="small")(pid_of), "own": app.task(name="own", size=50)(pid_of),
        "inline": app.task(name="inline", executor="inline", size=2)(pid_of),
        "boxed": app.task(name="boxed", executor="sandbox", sandbox=Sandbox())(pid_of),
    }  # fmt: skip
    found = {name: (task.runs_in, task.size, task.slots, task.policy().timeout_ms) for name, task in tasks.items()}
    assert found == {
        "plain": ("process", 25, 0, 9000), "near": ("thread", 1, 1, 9000), "small": ("process", 5, 0, 9000),
        "own": ("process", 50, 0, 9000), "inline": ("inline", 2, 2, 9000), "boxed": ("sandbox", 100, 0, 9000),
    }  # fmt: skip
    sources = {won.name: won.source for won in tasks["small"].settings()}
    assert (sources["executor"], sources["size"]) == ("app", "queue")
    assert {won.name: (won.value, won.source) for won in tasks["near"].settings()}["size"] == (None, "library")


def test_a_sandbox_for_all_tasks_is_for_those_that_run_in_one() -> None:
    box = Sandbox(read=["/etc"])
    app = Holdfast("memory://", executor="sandbox", sandbox=box)
    assert app.task(name="boxed")(pid_of).setting("sandbox") == box
    assert app.task(name="near", executor="thread")(pid_of).setting("sandbox") is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"executor": "gpu"}, r"Holdfast\(\): executor='gpu': one of"),
        ({"size": 0}, r"Holdfast\(\): size=0: a whole number from 1"),
        ({"timeout": 0}, r"Holdfast\(\): timeout=0 leaves no time to run"),
        ({"sandbox": Sandbox()}, r"Holdfast\(\): executor='sandbox' and sandbox=Sandbox\(\.\.\.\) belong together"),
    ],
)
def test_what_an_app_cannot_say_is_refused_at_once(options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Holdfast("memory://", **options)
