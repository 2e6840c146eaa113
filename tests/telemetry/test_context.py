"""Log records that are made while a handler runs have the fields of its job, whatever makes them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from spans import Recorder, recording
from support import burst, eventually, run, working

from holdfast import Holdfast
from holdfast.telemetry import traces
from holdfast.telemetry.context import FIELDS, records_with_jobs, trace_id

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
log = logging.getLogger("a.library")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """`Logger.makeRecord` as it was before, and as it is after the test."""
    before = logging.Logger.makeRecord
    yield before
    assert logging.Logger.makeRecord is before


def fields(record: logging.LogRecord) -> dict[str, object]:
    return {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}


@pytest.mark.parametrize("executor", ["inline", "thread"])
def test_records_of_any_library_have_the_fields_of_the_job(
    made: Any, caplog: pytest.LogCaptureFixture, executor: Any
) -> None:
    app = Holdfast("memory://")

    @app.task(name="do", queue="work", executor=executor)
    def do() -> None:
        log.warning("inside")

    async def steps() -> None:
        async with app:
            await do.options(job_id="a", headers={"traceparent": PARENT}).enqueue()
            await burst(app)
            log.warning("outside")

    run(steps())
    inside, outside = (record for record in caplog.records if record.name == "a.library")
    assert fields(inside) == {
        "job_id": "a", "run": 1, "attempt": 1, "task": "do", "queue": "work", "trace_id": TRACE,
    }  # fmt: skip
    assert fields(outside) == {}


@pytest.mark.parametrize("executor", ["inline", "thread"])
def test_the_trace_of_a_record_is_the_one_that_its_handler_runs_in(
    made: Any, caplog: pytest.LogCaptureFixture, executor: Any
) -> None:
    app = Holdfast("memory://")

    @app.task(name="do", queue="work", executor=executor)
    def do(number: int) -> None:
        log.warning("inside")

    async def steps(spans: Recorder) -> None:
        async with app:
            await do.enqueue_many(do.args(number) for number in range(101))
            await do.options(headers={"own": "1"}).enqueue(101)
            await burst(app)

    with recording() as spans:
        run(steps(spans))
        ids = {span.context.trace_id for span in spans.named("process work") if span.context}
    records = [record for record in caplog.records if record.name == "a.library"]
    assert len(records) == len(ids) == 102, "jobs of a large bulk have traces of their own"
    assert {record.trace_id for record in records} == {f"{id:032x}" for id in ids}  # type: ignore[attr-defined]


def test_what_a_program_gives_itself_stands(made: Any, caplog: pytest.LogCaptureFixture) -> None:
    app = Holdfast("memory://")

    @app.task(name="do", queue="work")
    async def do() -> None:
        log.warning("inside", extra={"task": "mine", "queue": "mine"})

    async def steps() -> None:
        async with app:
            await do.options(job_id="a").enqueue()
            assert (await burst(app)).completed == 1

    run(steps())
    (record,) = [record for record in caplog.records if record.name == "a.library"]
    assert (record.task, record.queue, record.job_id) == ("mine", "mine", "a")  # type: ignore[attr-defined]


async def test_two_workers_of_a_process_do_not_get_in_each_others_way(
    made: Any, caplog: pytest.LogCaptureFixture
) -> None:
    app = Holdfast("memory://")

    @app.task(name="do", queue="work")
    async def do() -> None:
        log.warning("inside")

    async with working(app):
        async with working(app):
            wrapped = logging.Logger.makeRecord
        assert logging.Logger.makeRecord is wrapped
        await do.call()
    assert [bool(fields(record)) for record in caplog.records if record.name == "a.library"] == [True]


def test_a_wrapper_of_another_library_stays_and_ours_does_nothing_in_it() -> None:
    class Job:
        id, run, attempt, task, queue = "a", 1, 1, "do", "work"
        headers: dict[str, str] = {}

    before = logging.Logger.makeRecord
    try:
        with records_with_jobs(Job):
            ours = logging.Logger.makeRecord

            def another(*args: Any, **kwargs: Any) -> logging.LogRecord:
                return ours(*args, **kwargs)

            logging.Logger.makeRecord = another  # type: ignore[method-assign]
            assert fields(log.makeRecord("x", 20, "", 0, "", (), None))["job_id"] == "a"
        assert logging.Logger.makeRecord is another
        assert fields(log.makeRecord("x", 20, "", 0, "", (), None)) == {}
        with records_with_jobs(Job):  # it is there already, inside of the other
            assert logging.Logger.makeRecord is another
            assert fields(log.makeRecord("x", 20, "", 0, "", (), None))["job_id"] == "a"
        logging.Logger.makeRecord = before  # type: ignore[method-assign]
        with records_with_jobs(Job):  # it was taken away
            assert fields(log.makeRecord("x", 20, "", 0, "", (), None))["job_id"] == "a"
        assert logging.Logger.makeRecord is before
    finally:
        logging.Logger.makeRecord = before  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (PARENT, TRACE), ("", None), ("00-xyz-1-01", None), (f"{PARENT}\n", None), (f"x{PARENT}", None),
        (f"{PARENT}-more", None),
    ],
)  # fmt: skip
def test_a_trace_is_taken_only_from_a_header_that_is_one(given: str, found: str | None) -> None:
    assert trace_id({"traceparent": given}) == found
    assert trace_id({}) is None


async def test_records_of_processes_and_sandboxes_have_them_too(caplog: pytest.LogCaptureFixture) -> None:
    import telemetry_tasks as tasks

    caplog.set_level("INFO")
    async with working(tasks.app, pool=1):
        await tasks.in_process.options(job_id="p", headers={"traceparent": PARENT}).call()
        await tasks.in_sandbox.options(job_id="s").call()
        await eventually(lambda: [record for record in caplog.records if record.getMessage() == "in a sandbox"])
    told = {record.getMessage(): fields(record) for record in caplog.records}
    assert told["in a process"] == {
        "job_id": "p", "run": 1, "attempt": 1, "task": "in_process", "queue": "work", "trace_id": TRACE,
    }  # fmt: skip
    assert told["in a sandbox"]["job_id"] == "s"
    assert told["seen in the process: p"]["job_id"] == "p"


async def test_what_a_process_logs_and_prints_is_of_the_trace_that_its_attempt_runs_in(
    caplog: pytest.LogCaptureFixture,
) -> None:
    import telemetry_tasks as tasks

    caplog.set_level("INFO")
    with recording() as spans:
        traces.configure(tracer_provider=spans.provider, parent_up_to=0)
        async with working(tasks.app, pool=1, name="w1"):
            await tasks.in_process.options(job_id="logs").call()
            await tasks.prints.options(job_id="prints").call()
        found = {(span.attributes or {})["messaging.message.id"]: span for span in spans.named("process work")}
    expected = {id: f"{span.context.trace_id:032x}" for id, span in found.items() if span.context}
    told = [record for record in caplog.records if hasattr(record, "job_id") and hasattr(record, "trace_id")]
    logged = [record for record in told if record.getMessage() == "in a process"]
    printed = [record for record in told if getattr(record, "event", None) == "handler_output"]
    assert {fields(record)["trace_id"] for record in logged} == {expected["logs"]}
    assert {fields(record)["trace_id"] for record in printed} == {expected["prints"]}
    assert {getattr(record, "worker", None) for record in printed} == {"w1"}


async def test_a_sandbox_cannot_speak_in_our_name_nor_for_another_job(caplog: pytest.LogCaptureFixture) -> None:
    import telemetry_tasks as tasks

    caplog.set_level("INFO")
    async with working(tasks.app, pool=1):
        await tasks.forges.options(job_id="f").call()
        await eventually(lambda: [record for record in caplog.records if "forged" in record.getMessage()])
    (record,) = [record for record in caplog.records if "forged" in record.getMessage()]
    assert record.name == "sandbox.holdfast"
    assert not hasattr(record, "event")
    assert fields(record)["job_id"] == "f"


async def test_what_a_process_prints_is_a_line_of_the_log_each(caplog: pytest.LogCaptureFixture) -> None:
    import telemetry_tasks as tasks

    caplog.set_level("INFO")
    async with working(tasks.app, pool=1):
        await tasks.prints.options(job_id="o").call()
    told = [record for record in caplog.records if getattr(record, "event", None) == "handler_output"]
    assert sorted(record.getMessage() for record in told) == [
        "handler_output: work/o stderr: forged\\u202e",
        "handler_output: work/o stderr: red\\x1b[31m",
        "handler_output: work/o stdout: from a program",
        "handler_output: work/o stdout: hello",
        "handler_output: work/o stdout: no end",
        "handler_output: work/o stdout: raw\\xff",
    ]
    assert {(record.job_id, record.stream) for record in told} == {("o", "stdout"), ("o", "stderr")}  # type: ignore[attr-defined]


async def test_what_is_printed_is_not_lost_where_the_level_leaves_it_out(capsys: pytest.CaptureFixture[str]) -> None:
    import telemetry_tasks as tasks

    async with working(tasks.app, pool=1):
        await tasks.prints.options(job_id="q").call()
    out, err = capsys.readouterr()
    assert "handler_output: work/q stdout: hello\n" in out
    assert "handler_output: work/q stderr: forged\\u202e\n" in err


async def test_what_a_sandbox_prints_is_a_line_of_the_log_and_forges_none(caplog: pytest.LogCaptureFixture) -> None:
    import telemetry_tasks as tasks

    caplog.set_level("INFO")
    async with working(tasks.app, pool=1):
        await tasks.prints_in_sandbox.options(job_id="ps").call()
    told = [record.getMessage() for record in caplog.records if getattr(record, "event", None) == "handler_output"]
    assert sorted(told) == [
        "handler_output: work/ps stderr: wrong\\u202e",
        "handler_output: work/ps stdout: job_completed: forged",
        "handler_output: work/ps stdout: red\\x1b[31m",
    ]
