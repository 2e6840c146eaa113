"""What a worker logs of its jobs and its life."""

from __future__ import annotations

import ast
import io
import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support import burst, eventually, run, working

import holdfast
from holdfast import Holdfast, Permanent, Retry, Snooze
from holdfast.telemetry.line_handler import LineHandler, sole_handler
from holdfast.telemetry.lines import format_of
from holdfast.telemetry.logs import EVENT_OF, STALLED

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "logs.md"


class Log:
    """The logger `holdfast`, with the command line's handler alone."""

    def __init__(self, form: Any) -> None:
        self.stream = io.StringIO()
        self.handler = LineHandler(format_of(form), self.stream)

    @contextmanager
    def alone(self) -> Iterator[logging.Logger]:
        """The handler is the only one in this block: pytest has its own, too, from the beginning of a test."""
        logger = logging.getLogger("holdfast")
        before = logger.handlers, logger.level, logger.propagate
        logger.handlers, logger.propagate = [self.handler], False
        logger.setLevel(logging.INFO)
        try:
            yield logger
        finally:
            logger.handlers, level, logger.propagate = before
            logger.setLevel(level)

    def run(self, coroutine: Any) -> None:
        with self.alone():
            run(coroutine)

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    def of(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.lines() if line.get("event") == event]


@pytest.fixture
def written() -> Log:
    """What the command line's handler writes as JSON."""
    return Log("json")


def shop() -> Holdfast:
    app = Holdfast("memory://")

    @app.task(name="fine", queue="work")
    async def fine() -> None: ...

    @app.task(name="breaks", queue="work", retry=Retry(failures=2, initial=0.01))
    async def breaks() -> None:
        raise ValueError("broken\x1b[2J")

    @app.task(name="waits", queue="work")
    async def waits(job: holdfast.Job) -> None:
        if job.attempt == 1:
            raise Snooze(after=0)
        raise Permanent("no")

    return app


async def done(app: Holdfast, name: str, **options: Any) -> None:
    async with app:
        await app.registry.tasks[name].options(job_id="a").enqueue()
        await burst(app, name="w", **options)


def test_an_attempt_has_a_line_with_its_job_and_its_times(written: Log) -> None:
    written.run(done(shop(), "fine"))
    (line,) = written.of("job_completed")
    assert (line["task"], line["queue"], line["job_id"], line["run"], line["attempt"]) == ("fine", "work", "a", 1, 1)
    assert (line["level"], line["worker"], line["waited"] >= 0, line["ran"] >= 0) == ("info", "w", True, True)


def test_a_retry_has_its_error_and_next_time_and_a_failure_its_traceback(written: Log) -> None:
    written.run(done(shop(), "breaks"))
    (retried,), (failed,) = written.of("job_retried"), written.of("job_failed")
    assert (retried["level"], retried["retry_in"], retried["cause"]) == ("warning", 0.01, "failure")
    assert (retried["error_type"], retried["error_message"]) == ("ValueError", "broken\x1b[2J")
    assert "traceback" not in retried
    assert (failed["level"], failed["attempt"], failed["error_type"]) == ("error", 2, "ValueError")
    assert failed["traceback"].startswith("Traceback")


def test_a_worker_tells_its_life(written: Log) -> None:
    written.run(done(shop(), "waits"))
    events = [line["event"] for line in written.lines()]
    assert events == ["worker_started", "job_snoozed", "job_failed", "worker_stopping", "worker_stopped"]
    started, *_, stopping, stopped = written.lines()
    assert (started["queues"], started["slots"], started["store"]) == (["work"], 10, "memory://")
    assert (stopping["detail"], stopped["counts"]) == ("burst", {"started": 2, "failed": 1, "snoozed": 1})


def test_without_job_lines_what_goes_wrong_is_told_all_the_same(written: Log) -> None:
    written.run(done(shop(), "fine", log_jobs=False))
    written.run(done(shop(), "breaks", log_jobs=False))
    events = [line["event"] for line in written.lines() if line["event"].startswith("job_")]
    assert events == ["job_retried", "job_failed"]


def test_other_handlers_get_the_same_as_records(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    run(done(shop(), "breaks"))
    run(done(shop(), "fine"))
    told = {record.event: record for record in caplog.records if hasattr(record, "event")}
    fine, failed = told["job_completed"], told["job_failed"]
    assert fine.getMessage().startswith("job_completed: fine work/a run 1 attempt 1 waited ")
    assert (fine.job_id, fine.task, fine.worker) == ("a", "fine", "w")  # type: ignore[attr-defined]
    assert (failed.levelname, failed.error_type) == ("ERROR", "ValueError")  # type: ignore[attr-defined]
    assert failed.exc_text is not None
    assert all(line.startswith("  ") for line in failed.exc_text.splitlines())
    assert "\x1b" not in caplog.text


def test_nothing_below_the_level_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("ERROR")
    run(done(shop(), "breaks"))
    assert [getattr(record, "event", None) for record in caplog.records] == ["job_failed"]


def test_settings_and_policies_that_change_are_told(written: Log) -> None:
    async def steps() -> None:
        app = shop()
        async with working(app, lease=0.3, poll=0.02):
            await app.queue("work").set(priority=3)
            await app.registry.tasks["fine"].adjust(failures=9)
            await app.registry.tasks["fine"].enqueue()
            await eventually(lambda: written.of("settings_changed") and written.of("policy_changed"))

    written.run(steps())
    assert written.of("settings_changed")[0]["message"] == "settings_changed: queue work: priority 0 -> 3"
    assert "retry.failures " in written.of("policy_changed")[0]["message"]


def test_the_handler_is_used_at_once_only_where_it_is_alone(written: Log) -> None:
    other = logging.NullHandler()
    with written.alone() as logger:
        assert sole_handler(logger) is written.handler
        logger.addHandler(other)
        assert sole_handler(logger) is None
        logger.removeHandler(other)
        written.handler.addFilter(lambda record: True)
        assert sole_handler(logger) is None


# --- the page


def events_in_code() -> set[str]:
    """Return the first words of all lines that the code logs."""
    found = {*EVENT_OF.values(), STALLED, "job_settled", "attempt_lost", "lines_dropped", "note"}
    for path in Path(holdfast.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _logs(node.func):
                found.add(_event(node, path))
    return found - {""}


def _logs(called: ast.Attribute) -> bool:
    of = called.value.id if isinstance(called.value, ast.Name) else ""
    if of == "self":
        return called.attr == "_warn"
    return of == "log" and called.attr in ("debug", "info", "warning", "error", "exception", "critical", "log")


def _event(call: ast.Call, path: Path) -> str:
    assert isinstance(call.func, ast.Attribute)
    given = call.args[1 if call.func.attr == "log" else 0]
    if isinstance(given, ast.Name):
        return ""  # of `_warn`, whose callers are looked at
    text = given.value if isinstance(given, ast.Constant) else ""
    named = re.match(r"([a-z][a-z0-9_]*): ", str(text))
    assert named is not None, f"{path}:{call.lineno}: a line begins with the name of its event: {text!r}"
    return named[1]


def test_every_line_begins_with_an_event_and_the_page_has_all_of_them() -> None:
    rows = re.findall(r"^\| (`[a-z0-9_]+`(?:, `[a-z0-9_]+`)*) \| (?:info|warning|error|debug)", PAGE.read_text(), re.M)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == events_in_code()
