"""Old and new workers on one queue: what a worker does not know is left to those that do, at nobody's cost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import places
import pytest
from click.testing import CliRunner
from support import Running, burst, eventually

from holdfast import Holdfast, State
from holdfast.cli.root import cli
from holdfast.store.contract import Session

JOBS = 200


@pytest.fixture(params=["sqlite", "redis", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with places.place(request.param, tmp_path) as url:
        yield url


def old_app(url: str) -> tuple[Holdfast, Any]:
    app = Holdfast(url)

    @app.task(name="known")
    async def known() -> str:
        return "known"

    return app, known


def new_app(url: str) -> tuple[Holdfast, Any, Any]:
    app, known = old_app(url)

    @app.task(name="fresh")
    async def fresh() -> str:
        return "fresh"

    return app, known, fresh


async def test_a_mixed_fleet_drains_a_new_task_without_delay_or_cost(place: str) -> None:
    producer, known, fresh = new_app(place)
    async with producer:
        apps = [new_app(place)[0], old_app(place)[0], new_app(place)[0], old_app(place)[0]]
        fleet = [Running(app.worker(["default"])) for app in apps]
        await eventually(lambda: all(each.worker.healthy for each in fleet))
        await fresh.enqueue_many(fresh.args() for _ in range(JOBS))
        last = await known.enqueue()
        assert await last.result() == "known"
        await eventually(lambda: are_completed(producer, JOBS + 1))
        events = [event async for event in producer.events()]
        reports = [await each.end() for each in fleet]
    assert sum(report.completed for report in reports) == JOBS + 1
    assert {event.counters.releases for event in events if event.counters} == {0}
    assert {event.transition for event in events} <= {"enqueue", "claim", "release", "complete"}, "none was put off"
    assert [report.completed for report in reports[1::2] if report.completed > 1] == [], "the old ones ran none of them"


async def are_completed(app: Holdfast, count: int) -> bool:
    info = await app.queue("default").info()
    assert info is not None
    return info.counts["completed"] == count


async def test_what_nobody_knows_holds_up_nobody(place: str) -> None:
    producer, known, fresh = new_app(place)
    old, _ = old_app(place)
    async with producer:
        strange = [await fresh.enqueue() for _ in range(30)]
        running = Running(old.worker(["default"], slots=5))
        assert await known.call() == "known"
        await eventually(lambda: all_put_off(strange))
        assert {(await handle.job()).counters.releases for handle in strange} == {0}
        await running.end()


async def all_put_off(handles: list[Any]) -> bool:
    return {(await handle.job()).state for handle in handles} == {State.SCHEDULED}


async def test_a_burst_ends_though_others_know_what_is_left(url: str, caplog: pytest.LogCaptureFixture) -> None:
    producer, known, fresh = new_app(url)
    async with producer:
        busy = Session(id="b", name="busy", host="h", pid=1, queues=("default",), tasks=("fresh",))
        await producer.store.register(busy)  # it is alive, and takes nothing
        handles = [await fresh.enqueue() for _ in range(3)]
        ours = await known.enqueue()
        report = await burst(old_app(url)[0], "default", poll=0.05)
        assert await ours.result() == "known"
        assert {(await handle.job()).state for handle in handles} == {State.WAITING}
    assert report.completed == 1
    assert "what is left is not for this worker: no task named 'fresh'" in caplog.text


async def test_the_doctor_names_tasks_that_nobody_alive_knows(place: str) -> None:
    producer, known, fresh = new_app(place)
    async with producer:
        running = Running(old_app(place)[0].worker(["default", "plain"]))
        await eventually(lambda: running.worker.healthy)
        handles = [await fresh.enqueue(), await fresh.enqueue(), await producer.queue("plain").enqueue({})]
        await known.call()
        await eventually(lambda: all_put_off(handles))
        result = await asyncio.to_thread(CliRunner().invoke, cli, ["doctor", "--url", place, "--json"])
        checks = {(check["name"], check["detail"]): check for check in json.loads(result.stdout)}
        strange = checks["queue default", "2 jobs of task fresh wait, and no worker alive knows it"]
        assert (strange["ok"], strange["advice"]) == (False, "run a worker whose app declares it, or cancel them")
        assert ("queue plain", "1 plain jobs wait, and no worker alive has a handler for them") in checks
        assert result.exit_code == 1
        new = Running(new_app(place)[0].worker(["default"]))
        await eventually(lambda: new.worker.healthy)
        result = await asyncio.to_thread(CliRunner().invoke, cli, ["doctor", "--url", place, "--json"])
        assert "no worker alive knows it" not in result.stdout
        await running.end()
        await new.end()


async def test_a_worker_says_which_tasks_it_knows(place: str) -> None:
    app, _ = old_app(place)
    app.queue("plain", handler="plain_handlers:echo")
    async with app:
        running = Running(app.worker(["default", "plain"]))
        await eventually(lambda: running.worker.healthy)
        (info,) = await app.workers()
        await running.end()
    assert info.session.tasks == ("known", "plain:")
