"""Flows: graphs of jobs, started as a whole, looked at, cancelled, and started again where they stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import places
import pytest
from support import burst, working

from holdfast import ConfigError, Dedup, Flow, Holdfast, Job, JobFailed, JobTimeout, Retry, State


@pytest.fixture(params=places.STORES)
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Holdfast]:
    with places.place(request.param, tmp_path) as url:
        yield Holdfast(url, retry=Retry(failures=1))


class Works:
    """The tasks of these tests, in two queues, and what they did."""

    def __init__(self, app: Holdfast) -> None:
        self.ran: list[str] = []
        self.broken = True

        @app.task(queue="many")
        async def square(n: int) -> int:
            self.ran.append(f"square {n}")
            if n < 0 and self.broken:
                raise ValueError("below zero")
            return n * n

        @app.task(queue="few")
        async def total(job: Job, plus: int = 0) -> int:
            self.ran.append("total")
            return plus + sum(each.result or 0 for each in await job.blockers())

        self.square, self.total = square, total


def build(app: Holdfast, works: Works, width: int = 10) -> Flow:
    """Return a flow that squares numbers and adds them, twice."""
    flow = app.flow("sums")
    squares = flow.map(works.square, range(width), name="squares")
    first = flow.reduce(squares, works.total.args(), name="first")
    second = flow.add(works.total.args(1000), after=squares, name="second")
    flow.add(works.total.args(), after=[first, second], name="both")
    return flow


async def test_fan_out_and_fan_in(app: Holdfast) -> None:
    works = Works(app)
    async with working(app):
        flow = build(app, works)
        assert (await flow.start()).queued == 13
        progress = await flow.wait()
        assert (progress.completed, progress.total, progress.over, progress.fraction) == (13, 13, True, 1.0)
        assert (await flow.result("first"), await flow.result("both")) == (285, 1570)


async def test_a_chain_of_calls_runs_in_order(app: Holdfast) -> None:
    works = Works(app)
    flow = app.flow("line")
    last = flow.chain(works.square.args(3), works.total.args(), works.total.args(1))
    async with working(app, slots=1):
        await flow.start()
        assert await flow.result(last) == 10
    assert works.ran == ["square 3", "total", "total"]


async def test_progress_counts_every_job(app: Holdfast) -> None:
    works = Works(app)
    flow = build(app, works, width=3)
    async with app:
        assert (await flow.progress()).missing == 6
        await flow.start()
        before = await flow.progress()
        assert (before.waiting, before.blocked, before.missing, before.over) == (3, 3, 0, False)
        await burst(app, "many")
        after = await flow.progress()
        assert (after.completed, after.waiting, after.blocked, after.fraction) == (3, 2, 1, 0.5)
        with pytest.raises(JobTimeout):
            await flow.wait(0.01)


async def test_a_flow_that_is_started_again_goes_on_where_it_stopped(app: Holdfast) -> None:
    works = Works(app)
    async with app:
        await build(app, works).start()
        await burst(app, "many")
        again = await build(app, works).start()
        assert (again.queued, again.completed, again.duplicate) == (0, 10, 3)
        await burst(app)
        assert (await build(app, works).progress()).completed == 13
    assert len(works.ran) == 13


async def test_a_flow_whose_start_was_cut_off_is_completed_by_the_next(app: Holdfast) -> None:
    works = Works(app)
    async with app:
        flow = build(app, works)
        for node in list(flow._nodes.values())[:5]:
            await app.enqueue_many([flow._call(node, "keep")])
        await burst(app, "many")
        counts = await build(app, works).start()
        assert (counts.queued, counts.completed) == (8, 5)
        await burst(app)
        assert await flow.result("both") == 1570


async def test_a_failure_fails_what_comes_after_and_nothing_else(app: Holdfast) -> None:
    works = Works(app)
    flow = app.flow("f")
    bad = flow.add(works.square.args(-1), name="bad")
    good = flow.add(works.square.args(2), name="good")
    flow.add(works.total.args(), after=bad, name="after bad")
    flow.add(works.total.args(), after=["good"], name="after good")
    flow.add(works.total.args(), after=[bad, good], name="after both")
    async with working(app):
        await flow.start()
        progress = await flow.wait()
        assert (progress.completed, progress.failed) == (2, 3)
        with pytest.raises(JobFailed, match="it waited for 'many/f/bad'"):
            await flow.result("after both")
        works.broken = False
        assert (await flow.start(on_failed="requeue")).requeued == 3
        assert (await flow.wait()).completed == 5
        assert await flow.result("after both") == 5


@pytest.mark.parametrize("policy", ["cancel", "ignore"])
async def test_the_failure_policy_of_a_flow(app: Holdfast, policy: str) -> None:
    works = Works(app)
    flow = app.flow("f", on_blocker_failed=policy)  # type: ignore[arg-type]
    group = flow.map(works.square, [-1, 2])
    flow.reduce(group, works.total.args())
    async with working(app):
        await flow.start()
        progress = await flow.wait()
    if policy == "cancel":
        assert (progress.completed, progress.failed, progress.cancelled) == (1, 1, 1)
    else:
        assert (progress.completed, progress.failed) == (2, 1)


async def test_cancel_of_the_whole(app: Holdfast) -> None:
    works = Works(app)
    started = asyncio.Event()

    @app.task(queue="many")
    async def wait(job: Job, n: int) -> None:
        started.set()
        await job.signal.wait()
        job.signal.check()

    flow = app.flow("c")
    group = flow.map(wait, range(5))
    flow.reduce(group, works.total.args())
    async with working(app, slots=2):
        await flow.start()
        await started.wait()
        before = await flow.cancel()
        assert before.blocked == 1
        assert (await flow.wait()).cancelled == 6
    assert "total" not in works.ran


async def test_thousands_wide(app: Holdfast) -> None:
    works = Works(app)
    flow = app.flow("wide")
    squares = flow.map(works.square, range(2000))
    last = flow.reduce(squares, works.total.args())
    async with working(app, slots=100):
        await flow.start()
        assert await flow.result(last, 50) == sum(n * n for n in range(2000))
        assert (await flow.progress()).completed == 2001


async def test_a_blocker_from_outside_may_be_named_too(app: Holdfast) -> None:
    works = Works(app)
    async with app:
        outside = await works.square.enqueue(5)
        flow = app.flow("o")
        inside = flow.add(works.square.args(1))
        flow.add(works.total.options(blockers=[outside]).args(), after=inside, name="sum")
        await flow.start()
        await burst(app)
        assert await flow.result("sum") == 26


def test_what_a_flow_cannot_be_made_of_is_refused() -> None:
    app = Holdfast("memory://")
    works = Works(app)
    flow = app.flow("f")
    flow.add(works.total.args(), name="one")
    refusals = {
        "two jobs named 'one'": lambda: flow.add(works.total.args(), name="one"),
        "has no job named 'two'": lambda: flow.add(works.total.args(), after=["two"]),
        "give a job or a group of this flow": lambda: flow.add(
            works.total.args(), after=app.flow("g").add(works.total.args())
        ),
        "after=None: give a job": lambda: flow.add(works.total.args(), after=None),  # type: ignore[arg-type]
        "made of calls": lambda: flow.add(works.total),  # type: ignore[arg-type]
        "the ids of a flow's jobs": lambda: flow.add(works.total.options(job_id="x").args()),
        "not for the jobs of a flow": lambda: flow.add(works.total.options(dedup=Dedup("x")).args()),
        "a chain has at least one job": flow.chain,
        "a flow's id": lambda: app.flow(""),
        '"fail", "cancel" or "ignore"': lambda: app.flow("f", on_blocker_failed="x"),  # type: ignore[arg-type]
    }
    for words, refused in refusals.items():
        with pytest.raises(ConfigError, match=words):
            refused()


async def test_an_empty_group_blocks_nobody(app: Holdfast) -> None:
    works = Works(app)
    flow = app.flow("e")
    last = flow.reduce(flow.map(works.square, []), works.total.args())
    async with app:
        await flow.start()
        assert (await app.status("few", last.id)).state is State.WAITING


async def test_what_a_flow_cannot_be_started_with_is_refused() -> None:
    app = Holdfast("memory://")
    flow = app.flow("f")
    flow.add(Works(app).total.args())
    async with app:
        with pytest.raises(ConfigError, match=r'on_failed=.again.: "keep" or "requeue"'):
            await flow.start(on_failed="again")  # type: ignore[arg-type]
        assert (await flow.progress()).missing == 1


def test_a_name_alone_is_one_job_to_come_after() -> None:
    app = Holdfast("memory://")

    @app.task()
    async def job() -> None: ...

    flow = app.flow("f")
    flow.add(job.args(), name="a")
    both = flow.add(job.args(), name="ab")
    assert flow.add(job.args(), after="ab").after == (both,)
    with pytest.raises(ConfigError, match="flow 'f' has no job named 'ba'"):
        flow.add(job.args(), after="ba")


def test_jobs_of_two_flows_never_have_one_id() -> None:
    app = Holdfast("memory://")

    @app.task()
    async def job() -> None: ...

    assert app.flow("a").add(job.args(), name="b/c").id == "a/b/c"
    with pytest.raises(ConfigError, match="flow 'a/b': a flow's id has no /, which parts it from the names"):
        app.flow("a/b")
