"""The app in Flask: handlers in the application's context, and `flask holdfast`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from flask import Flask, current_app, g
from support import eventually

from holdfast import ConfigError, Holdfast, Worker
from holdfast.contrib.flask import HoldfastFlask, current_holdfast
from holdfast.testing import drain


@pytest.fixture
def jobs() -> Holdfast:
    return Holdfast("memory://")


@pytest.fixture
def flask() -> Flask:
    made = Flask("shop")
    made.config["COLOUR"] = "green"
    return made


async def test_handlers_run_in_the_context_of_the_application(jobs: Holdfast, flask: Flask) -> None:
    HoldfastFlask(jobs, flask)
    closed: list[str] = []

    @flask.teardown_appcontext
    def tear_down(error: BaseException | None) -> None:
        closed.append(g.task)

    @jobs.task()
    def threaded() -> str:
        g.task = "threaded"
        return str(current_app.config["COLOUR"])

    @jobs.task()
    async def inline() -> str:
        g.task = "inline"
        return str(current_app.config["COLOUR"])

    async with jobs, jobs.worker():
        assert [await threaded.call(), await inline.call()] == ["green", "green"]
    assert closed == ["threaded", "inline"]


async def test_the_last_application_of_a_factory_is_the_handlers(jobs: Holdfast) -> None:
    extension = HoldfastFlask(jobs)
    for name in ("first", "second"):
        extension.init_app(Flask(name))

    @jobs.task()
    async def whose() -> str:
        return current_app.name

    async with jobs:
        await whose.enqueue()
        assert [each.result for each in await drain(jobs)] == ["second"]


async def test_a_worker_without_an_application_hands_its_jobs_back(jobs: Holdfast) -> None:
    HoldfastFlask(jobs)

    @jobs.task()
    async def lonely() -> None: ...

    async with jobs:
        handle = await lonely.enqueue()
        worker: Worker = jobs.worker()
        async with worker:
            await eventually(lambda: _was_handed_back(jobs, handle.id))
        record = await lonely.status(handle.id)
        assert (record.state, record.counters.failures) == ("waiting", 0)


async def _was_handed_back(jobs: Holdfast, job_id: str) -> bool:
    page = [event async for event in jobs.events(queue="default")]
    return any(event.transition == "release" for event in page)


def test_an_application_takes_one_app(jobs: Holdfast, flask: Flask) -> None:
    extension = HoldfastFlask(jobs, flask)
    extension.init_app(flask)
    with pytest.raises(ConfigError, match="'shop' has a Holdfast app already"):
        HoldfastFlask(Holdfast("memory://"), flask)


def test_the_current_app(jobs: Holdfast, flask: Flask) -> None:
    with flask.app_context(), pytest.raises(ConfigError, match="'shop' has no Holdfast app"):
        current_holdfast.queue("q")
    HoldfastFlask(jobs, flask)
    with flask.app_context():
        assert current_holdfast.store is jobs.store


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module with an app on a file."""
    monkeypatch.delenv("HOLDFAST_APP", raising=False)
    monkeypatch.delenv("HOLDFAST_URL", raising=False)
    made = ModuleType("flaskshop_jobs")
    made.jobs = Holdfast(f"sqlite:///{tmp_path}/jobs.db")  # type: ignore[attr-defined]
    sys.modules["flaskshop_jobs"] = made
    yield made
    del sys.modules["flaskshop_jobs"]


def test_the_commands_of_holdfast_know_the_app(module: ModuleType, flask: Flask) -> None:
    extension = HoldfastFlask(module.jobs, flask)

    @module.jobs.task(queue="mail")
    def colour() -> str:
        return str(current_app.config["COLOUR"])

    assert extension.path == "flaskshop_jobs:jobs"
    run = flask.test_cli_runner().invoke
    assert run(args=["holdfast", "enqueue", "colour"]).exit_code == 0
    worked = run(args=["holdfast", "worker", "--burst", "--no-guard"])
    assert worked.exit_code == 0, worked.output
    assert "1 completed" in worked.output
    listed = run(args=["holdfast", "jobs", "--json"])
    assert '"green"' in listed.output or "completed" in listed.output
    assert "Run jobs" in run(args=["--help"]).output
    assert "flask holdfast" in run(args=["holdfast", "--help"]).output
    assert run(args=["holdfast", "jobz"]).exit_code == 2


def test_an_app_that_no_module_has(jobs: Holdfast, flask: Flask) -> None:
    extension = HoldfastFlask(jobs, flask)
    with pytest.raises(ConfigError, match="no module has this Holdfast app under a name"):
        _ = extension.path
    assert HoldfastFlask(jobs, path="shop:jobs").path == "shop:jobs"
