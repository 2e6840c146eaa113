"""What is logged of an app or a worker goes to the logger that it was given."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from support import burst, working

from holdfast import Holdfast, HookEvent, Job, Permanent


def lines(caplog: pytest.LogCaptureFixture, what: str) -> list[str]:
    """Return the loggers that said so."""
    return [record.name for record in caplog.records if what in record.getMessage()]


def noisy(app: Holdfast) -> Any:
    """Return a task of an app in which a hook always raises."""

    @app.on("complete")
    def hear(happening: HookEvent) -> None:
        raise LookupError("a bad hook")

    @app.on("enqueue")
    async def hear_later(happening: HookEvent) -> None:
        raise LookupError("a bad hook")

    @app.task()
    async def work(job: Job) -> None: ...

    return work


@pytest.mark.parametrize("given", ["myapp.jobs", logging.getLogger("myapp.jobs")])
async def test_everything_of_an_app_goes_to_its_logger(url: str, given: Any, caplog: pytest.LogCaptureFixture) -> None:
    app = Holdfast(url, logger=given)
    work = noisy(app)
    async with working(app, lease=0.3):
        handle = await work.enqueue()
        await handle.result()
    assert set(lines(caplog, "a hook for complete raised")) == {"myapp.jobs"}
    assert set(lines(caplog, "a hook for enqueue raised")) == {"myapp.jobs"}
    assert not [record for record in caplog.records if record.name == "holdfast"]


async def test_a_worker_may_have_its_own_and_others_theirs(app: Holdfast, caplog: pytest.LogCaptureFixture) -> None:
    work = noisy(app)
    async with app:
        for options in ({"logger": "mine"}, {}):
            await work.enqueue()
            await burst(app, **options)
    assert lines(caplog, "a hook for complete raised") == ["mine", "holdfast"]
    assert set(lines(caplog, "a hook for enqueue raised")) == {"holdfast"}


async def test_the_level_is_that_of_the_logger_that_was_given(app: Holdfast, caplog: pytest.LogCaptureFixture) -> None:
    work = noisy(app)
    logging.getLogger("quiet").setLevel(logging.CRITICAL)
    caplog.set_level(logging.CRITICAL, "holdfast")
    caplog.set_level(logging.DEBUG, "loud")
    async with app:
        for name in ("quiet", "loud"):
            await work.enqueue()
            await burst(app, logger=name)
    assert lines(caplog, "a hook for complete raised") == ["loud"]


async def test_job_data_cannot_forge_a_line_there_either(app: Holdfast, caplog: pytest.LogCaptureFixture) -> None:
    app.logger = logging.getLogger("mine")

    @app.task()
    async def work(job: Job) -> None:
        async with job.complete():
            pass
        raise Permanent("too late")

    async with app:
        await work.options(job_id="a\nERROR forged").enqueue()
        await burst(app)
    (record,) = [each for each in caplog.records if "which stands" in each.getMessage()]
    assert (record.name, "\n" in record.getMessage()) == ("mine", False)


@pytest.mark.parametrize("wrong", ["", 7, b"jobs", print])
def test_what_is_no_logger_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"logger=.*: the name of a logger, or a logging.Logger"):
        Holdfast("memory://", logger=wrong)
    app = Holdfast("memory://")
    app.queue("mail")
    with pytest.raises(ValueError, match=r"logger=.*: the name of a logger"):
        app.worker(logger=wrong)
