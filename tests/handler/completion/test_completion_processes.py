"""Handlers in processes that complete their jobs themselves: their writes and the completion, or neither."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from own_writes import Place, PostgresPlace, own_place
from places import place as store_place
from support import burst, transitions

from holdfast import State


@pytest.fixture
def tasks(place: Place, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of handlers, on this place."""
    if isinstance(place, PostgresPlace):
        monkeypatch.setenv("HOLDFAST_TEST_SESSION", f"{place.schema}.session")
    return imported(place.url, monkeypatch, HOLDFAST_TEST_TABLE=place.table)


def imported(url: str, monkeypatch: pytest.MonkeyPatch, **more: str) -> ModuleType:
    for name, value in {"HOLDFAST_TEST_URL": url, **more}.items():
        monkeypatch.setenv(name, value)
    sys.modules.pop("pay_tasks", None)
    return importlib.import_module("pay_tasks")


async def paid(tasks: ModuleType, how: str) -> tuple[Any, Any, list[str]]:
    """Return the report of a worker that did one job, the job, and what happened to it."""
    async with tasks.app as app:
        await tasks.pay.options(job_id="one").enqueue(how)
        report = await burst(app, pool=1, poll=0.05)
        return report, await app.status("default", "one"), await transitions(app, "one")


async def test_the_writes_and_the_completion_are_committed_together(tasks: ModuleType, place: Place) -> None:
    told: list[Any] = []
    tasks.app.on("complete")(lambda happening: told.append(happening.id))
    report, job, seen = await paid(tasks, "well")
    assert (report.completed, report.lost, report.started) == (1, 0, 1)
    assert (job.state, job.result) == (State.COMPLETED, b'"paid by attempt 1"')
    assert seen == ["enqueue", "claim", "complete"]
    assert told == ["one"]
    assert place.rows() == [1]


@pytest.mark.parametrize("how", ["raise", "hide", "roll back", "lose"])
async def test_what_goes_wrong_inside_undoes_the_writes(tasks: ModuleType, place: Place, how: str) -> None:
    report, job, seen = await paid(tasks, how)
    assert (report.completed, report.retried) == (1, 1)
    assert job.result == b'"paid by attempt 2"'
    assert [each for each in seen if each != "promote"] == ["enqueue", "claim", "retry", "claim", "complete"]
    assert place.rows() == [2]


async def test_a_process_that_dies_inside_leaves_nothing(tasks: ModuleType, place: Place) -> None:
    report, job, _ = await paid(tasks, "die")
    assert (report.completed, report.released) == (1, 1)
    assert job.result == b'"paid by attempt 2"'
    assert place.rows() == [2]


@pytest.mark.parametrize("how", ["raise after", "die after"])
async def test_what_was_committed_stands(tasks: ModuleType, place: Place, how: str) -> None:
    report, job, seen = await paid(tasks, how)
    assert (report.retried, report.lost) == (0, 1 if how == "die after" else 0)
    assert (job.state, job.result) == (State.COMPLETED, b'"paid by attempt 1"')
    assert seen == ["enqueue", "claim", "complete"]
    assert place.rows() == [1]


async def test_a_coroutine_in_a_process_does_the_same(tasks: ModuleType, place: Place) -> None:
    async with tasks.app as app:
        for _ in range(3):
            await tasks.pay_in_loop.enqueue()
        report = await burst(app, pool=1)
        assert (report.completed, report.lost, report.failed) == (3, 0, 0)
    assert place.rows() == [-1] * 3 + [1] * 3


async def test_trouble_of_the_store_costs_no_failure(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with own_place("sqlite", path) as place:
        tasks = imported(f"{place.url}?busy_timeout=0.1", monkeypatch, HOLDFAST_TEST_TABLE=place.table)
        async with tasks.app as app:
            await tasks.pay_behind_a_lock.options(job_id="one").enqueue(str(path))
            report = await burst(app, pool=1)
            assert (report.released, report.completed, report.failed, report.retried) == (1, 1, 0, 0)
        assert place.rows() == [2]


async def test_atomic_is_one_transaction_from_prepare_to_complete(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with own_place("postgres", path) as place:
        tasks = imported(place.url, monkeypatch, HOLDFAST_TEST_TABLE=place.table)
        async with tasks.app as app:
            handle = await tasks.atomic.enqueue()
            assert (await burst(app, pool=1)).completed == 1
            assert await handle.result() == "paid"
            errors = [event.error_type async for event in app.events() if event.transition == "retry"]
        assert errors == ["ValueError", "ConfigError"]
        assert place.rows() == [3, 10]


@pytest.mark.parametrize(
    ("store", "task", "why"),
    [
        ("redis", "pay", "has no transactions that a caller could share"),
        ("sqlite", "boxed", "to which a sandbox has no way; use another executor"),
        ("sqlite", None, "a plain function has none; make it a task"),
    ],
)
async def test_where_it_cannot_be_the_job_fails_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str, task: str | None, why: str
) -> None:
    with store_place(store, tmp_path) as url:
        tasks = imported(url, monkeypatch)
        async with tasks.app as app:
            queue = app.queue("default" if task else "plain", handler="pay_tasks:plain", executor="process")
            if task is None:
                await queue.enqueue("x", job_id="one")
            else:
                await getattr(tasks, task).options(job_id="one").enqueue(*(["well"] if task == "pay" else []))
            report = await burst(app, pool=1)
            assert (report.failed, report.retried) == (1, 0), "no retry would help"
            error = (await app.status(queue.name, "one")).error
        assert error is not None
        assert why in error.message
