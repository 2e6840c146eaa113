"""How jobs get their trace, and what is recorded of them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import baggage, trace
from opentelemetry.context import attach, detach
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, TraceIdRatioBased
from spans import Recorder, attribute, context, is_child, links, recording
from support import burst, declare_dead, eventually, working

from holdfast import ConfigError, Holdfast, Job, Retry, Snooze
from holdfast.telemetry import current_trace_id, traces
from holdfast.telemetry.traces import spans as tracing_module

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00"
ONCE = Retry(failures=1)


@pytest.fixture
def echo(app: Holdfast) -> Any:
    """A task that returns the headers with which it was enqueued, and the trace that it runs in."""

    @app.task(queue="work")
    async def echo(job: Job) -> dict[str, Any]:
        return {"headers": job.headers, "trace": current_trace_id()}

    return echo


def _hex(span: Any) -> tuple[str, str]:
    return f"{context(span).trace_id:032x}", f"{context(span).span_id:016x}"


async def test_a_job_carries_its_context_beside_the_callers_headers(app: Holdfast, echo: Any, spans: Recorder) -> None:
    async with working(app):
        found = await echo.options(headers={"tenant": "a"}).call()
    trace_id, span_id = _hex(spans.one("send work"))
    assert found["headers"]["tenant"] == "a"
    assert found["headers"]["traceparent"].startswith(f"00-{trace_id}-{span_id}-")
    assert found["trace"] == trace_id


async def test_baggage_and_trace_state_travel_too(app: Holdfast, echo: Any, spans: Recorder) -> None:
    @app.task(queue="work")
    async def whose() -> str:
        return str(baggage.get_baggage("customer"))

    async with working(app):
        token = attach(baggage.set_baggage("customer", "ann"))
        try:
            found, customer = await echo.call(), await whose.call()
        finally:
            detach(token)
    assert found["headers"]["baggage"] == "customer=ann"
    assert customer == "ann"


async def test_a_context_that_the_caller_gave_is_the_parent(app: Holdfast, echo: Any, spans: Recorder) -> None:
    async with working(app):
        found = await echo.options(headers={"traceparent": SAMPLED, "tracestate": "vendor=1"}).call()
    assert found["headers"] == {"traceparent": SAMPLED, "tracestate": "vendor=1"}
    assert _hex(spans.one("process work"))[0] == TRACE == found["trace"]
    (link,) = spans.one("send work").links
    assert f"{link.context.span_id:016x}" == SPAN


async def test_a_bulk_is_one_span_and_a_large_one_is_only_linked(app: Holdfast, spans: Recorder) -> None:
    @app.task(queue="work")
    async def add(number: int) -> None: ...

    async with app:
        await add.enqueue_many((add.args(number) for number in range(7)), chunk=2)
        await burst(app)
    sent, ran = spans.one("send work"), spans.named("process work")
    assert attribute(sent, "messaging.batch.message_count") == 7
    assert attribute(sent, "messaging.message.id") is None
    assert len(ran) == 7
    assert all(is_child(each, sent) and links(each, sent) for each in ran)

    with recording(parent_up_to=4) as later:
        async with app:
            await add.enqueue_many((add.args(number) for number in range(7)), chunk=2)
            await burst(app)
    sent, ran = later.one("send work"), later.named("process work")
    assert [is_child(each, sent) for each in ran].count(True) == 4  # those of the first two calls of the store
    assert all(links(each, sent) for each in ran)
    assert all(each.parent is None for each in ran if not is_child(each, sent))
    assert len({context(each).trace_id for each in ran}) == 1 + 3


async def test_a_bulk_for_several_queues_names_none(app: Holdfast, echo: Any, spans: Recorder) -> None:
    @app.task(queue="other")
    async def other() -> None: ...

    async with app:
        await app.enqueue_many([echo.args(), other.args()])
    sent = spans.one("send")
    assert attribute(sent, "messaging.destination.name") is None
    assert attribute(sent, "messaging.batch.message_count") == 2


async def test_a_process_may_want_links_alone(app: Holdfast, echo: Any) -> None:
    with recording(parent_up_to=0, settle=False) as spans:
        async with working(app):
            found = await echo.call()
    sent, ran = spans.one("send work"), spans.one("process work")
    assert ran.parent is None
    assert links(ran, sent)
    assert found["trace"] == _hex(ran)[0] != _hex(sent)[0]
    assert {span.name for span in spans.ended} == {"send work", "process work"}


def test_the_sync_facade_keeps_the_callers_span(app: Holdfast, echo: Any, spans: Recorder) -> None:
    with app.sync, spans.tracer.start_as_current_span("view"):
        app.sync(echo.enqueue())
        app.sync(app.queue("plain").enqueue({"a": 1}))
        app.sync(app.enqueue_many([echo.args(), echo.args()]))
    view = spans.one("view")
    assert all(is_child(span, view) for span in (*spans.named("send work"), spans.one("send plain")))


async def test_a_plain_queue_is_traced_as_tasks_are(app: Holdfast, spans: Recorder) -> None:
    seen: list[str | None] = []
    app.queue("plain", handler=lambda payload: seen.append(current_trace_id()))
    async with app:
        await app.queue("plain").enqueue({"a": 1})
        await burst(app)
    assert is_child(spans.one("process plain"), spans.one("send plain"))
    assert attribute(spans.one("process plain"), "holdfast.task") is None
    assert seen == [_hex(spans.one("send plain"))[0]]


async def test_a_job_in_the_callers_transaction_carries_the_span_that_sent_it(
    app: Holdfast, path: Path, echo: Any, spans: Recorder
) -> None:
    async with app:
        with closing(sqlite3.connect(path)) as db, db:
            await echo.options(connection=db).enqueue()
            await app.enqueue_many([echo.args(), echo.args()], connection=db)
        await burst(app)
    single, bulk = spans.named("send work")
    assert attribute(bulk, "messaging.batch.message_count") == 2
    assert [is_child(each, single) for each in spans.named("process work")].count(True) == 1
    assert [is_child(each, bulk) for each in spans.named("process work")].count(True) == 2


async def test_a_requeued_job_keeps_its_trace(app: Holdfast, echo: Any, spans: Recorder) -> None:
    async with app:
        await echo.options(job_id="a").enqueue()
        await burst(app)
        await app.requeue("a", queue="work")
        await burst(app)
    sent, (first, second) = spans.one("send work"), spans.named("process work")
    assert is_child(first, sent)
    assert is_child(second, sent)
    assert attribute(first, "holdfast.run") != attribute(second, "holdfast.run")


async def test_an_enqueue_that_fails_says_so_in_its_span(app: Holdfast, echo: Any, spans: Recorder) -> None:
    async with app:

        async def enqueue(*arguments: object) -> None:
            raise ConnectionError("the store is away")

        app.client.store = type("Broken", (), {"enqueue": staticmethod(enqueue)})()
        with pytest.raises(ConnectionError):
            await echo.enqueue()
        app.client.store = app.store
    sent = spans.one("send work")
    assert (sent.status.status_code.name, attribute(sent, "error.type")) == ("ERROR", "ConnectionError")


async def test_the_handlers_own_spans_and_jobs_are_children_of_the_attempt(app: Holdfast, spans: Recorder) -> None:
    @app.task(queue="later")
    def later() -> None: ...

    @app.task(queue="work")
    def threaded() -> None:
        with spans.tracer.start_as_current_span("query"):
            app.sync(later.enqueue())

    @app.task(queue="work")
    async def inline() -> None:
        with spans.tracer.start_as_current_span("fetch"):
            await later.enqueue()

    async with working(app):
        await threaded.call()
        await inline.call()
    for task, own in (("threaded", "query"), ("inline", "fetch")):
        assert is_child(spans.one(own), spans.of(task))
        assert any(is_child(sent, spans.one(own)) for sent in spans.named("send later"))


async def test_a_worker_inside_another_span_links_it_and_no_job_is_its_child(
    app: Holdfast, echo: Any, spans: Recorder
) -> None:
    async with app:
        await echo.enqueue()
        with spans.tracer.start_as_current_span("main"):
            await burst(app)
    ran = spans.one("process work")
    assert is_child(ran, spans.one("send work"))
    assert links(ran, spans.one("main"), "worker")


async def test_how_an_attempt_ended_is_said(app: Holdfast, spans: Recorder) -> None:
    @app.task(queue="work")
    async def snooze(job: Job) -> None:
        if not job.snoozes:
            raise Snooze(after=0.01)

    @app.task(queue="work", retry=ONCE)
    async def fail() -> None:
        raise ValueError("\x1b[31m<b>no")

    async with working(app):
        await snooze.enqueue()
        await fail.enqueue()
        await eventually(lambda: len(spans.named("process work")) == 3)
    assert attribute(spans.of("snooze"), "holdfast.outcome") == "snooze"
    assert spans.of("snooze").status.status_code.name == "UNSET"
    assert attribute(spans.of("fail"), "holdfast.outcome") == "retry"  # at its limit, which the store knows
    assert spans.of("fail").status.description == "ValueError: \x1b[31m<b>no"


async def test_an_attempt_whose_lease_was_lost_is_an_error(app: Holdfast, spans: Recorder) -> None:
    started: list[int] = []

    @app.task(queue="work")
    async def hang(job: Job) -> None:
        started.append(job.attempt)
        if job.attempt == 1:
            await job.signal.wait()

    async with working(app):
        await hang.enqueue()
        await eventually(lambda: started)
        await declare_dead(app)
        await eventually(lambda: len(spans.named("process work")) == 2)
    lost = spans.of("hang")
    assert attribute(lost, "holdfast.outcome") == "lost"
    assert attribute(lost, "error.type") == "lease_lost"
    assert lost.status.status_code.name == "ERROR"


@pytest.mark.parametrize("text", ["", "00-zz", "\x1b[31m", "00-" + "0" * 32 + "-" + "0" * 16 + "-01"])
async def test_a_bad_traceparent_is_ignored(app: Holdfast, echo: Any, spans: Recorder, text: str) -> None:
    async with working(app):
        found = await echo.options(headers={"traceparent": text, "holdfast": "x"}).call()
    assert found["headers"]["traceparent"] == text
    ran = spans.one("process work")
    assert ran.parent is None
    assert not ran.links


# --- sampling


async def test_what_is_not_sampled_leaves_no_span_and_travels_on(app: Holdfast) -> None:
    seen: list[dict[str, str]] = []

    @app.task(queue="work")
    async def last(job: Job) -> None:
        seen.append(job.headers)

    @app.task(queue="work")
    async def first() -> None:
        await last.enqueue()

    with recording(ParentBased(ALWAYS_OFF)) as spans:
        async with app:
            await first.options(headers={"traceparent": UNSAMPLED}).enqueue()
            await burst(app)
    assert spans.ended == []
    assert seen[0]["traceparent"].startswith(f"00-{TRACE}-")
    assert seen[0]["traceparent"].endswith("-00")


async def test_a_sampler_that_asks_nobody_is_asked_each_time(app: Holdfast, echo: Any) -> None:
    with recording(TraceIdRatioBased(1.0)) as spans:
        async with app:
            await echo.options(headers={"traceparent": UNSAMPLED}).enqueue()
            await burst(app)
    assert _hex(spans.one("process work"))[0] == TRACE


# --- without a provider


async def test_without_a_provider_a_context_is_handed_on_as_it_is(app: Holdfast) -> None:
    seen: list[dict[str, str]] = []
    headers = {"traceparent": SAMPLED, "tracestate": "vendor=1", "baggage": "user=ann", "tenant": "a"}

    @app.task(queue="work")
    async def last(job: Job) -> None:
        seen.append(job.headers)
        assert current_trace_id() == TRACE

    @app.task(queue="work")
    def middle(job: Job) -> Any:
        app.sync(last.options(headers={"own": "1"}).enqueue())
        return job.continue_with(last)

    @app.task(queue="work")
    async def first() -> None:
        assert current_trace_id() == TRACE
        await middle.enqueue()

    async with working(app):
        await first.options(headers=headers).call()
        await eventually(lambda: len(seen) == 2)
    carried = {name: headers[name] for name in ("traceparent", "tracestate", "baggage")}
    assert sorted(seen, key=len) == [carried, {**carried, "own": "1"}]
    assert current_trace_id() is None


async def test_a_job_without_context_gets_none(app: Holdfast, echo: Any) -> None:
    async with working(app):
        assert await echo.call() == {"headers": {}, "trace": None}


async def test_a_provider_that_is_set_later_is_found(app: Holdfast, echo: Any) -> None:
    async with working(app):
        assert (await echo.call())["trace"] is None
        with recording() as spans:
            found = await echo.call()
            await eventually(lambda: spans.named("process work"))
    assert found["trace"] == _hex(spans.one("process work"))[0]


async def test_the_global_provider_is_used_once_there_is_one(
    app: Holdfast, echo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder()
    async with app:
        await echo.enqueue()
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", recorder.provider)
        await echo.enqueue()
        monkeypatch.undo()
        await echo.enqueue()
    assert len(recorder.named("send work")) == 1
    recorder.provider.shutdown()


async def test_a_provider_that_raises_turns_traces_off(
    app: Holdfast, echo: Any, caplog: pytest.LogCaptureFixture
) -> None:
    traces.configure(tracer_provider=object())  # type: ignore[arg-type]
    try:
        async with working(app):
            assert (await echo.call())["trace"] is None
    finally:
        traces.configure()
    assert caplog.text.count("traces_off: ") == 1


class Raising(SpanProcessor):
    """Raises whenever it is told anything."""

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        raise RuntimeError("no room")

    def on_end(self, span: Any) -> None:
        raise RuntimeError("no room")

    def shutdown(self) -> None: ...


async def test_no_job_fails_for_its_trace(app: Holdfast, echo: Any, caplog: pytest.LogCaptureFixture) -> None:
    with recording() as spans:
        async with working(app):
            spans.provider.add_span_processor(Raising())
            assert (await echo.call())["headers"] == {}
            assert (await app.status("work", (await echo.enqueue()).id)).task == "echo"
        report = await _drained(app)
    assert report == 0
    assert "trace_failed: RuntimeError: no room" in caplog.text


async def _drained(app: Holdfast) -> int:
    async with app:
        return (await burst(app)).failed


async def test_handlers_may_hand_their_headers_on(app: Holdfast, echo: Any, spans: Recorder) -> None:
    @app.task(queue="work")
    async def hand_on(job: Job) -> None:
        await echo.options(headers=job.headers, job_id=f"of-{job.id}").enqueue()

    async with working(app):
        await app.enqueue_many([hand_on.args(), hand_on.args()])
        await eventually(lambda: len(spans.named("process work")) == 4)
    (bulk,) = spans.named("send work")[:1]
    assert {context(each).trace_id for each in spans.named("process work")} == {context(bulk).trace_id}


async def test_a_long_chain_begins_another_trace(app: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing_module, "MOST_IN_CHAIN", 2)

    @app.task(queue="work")
    async def go_on(job: Job) -> Any:
        return job.continue_with(go_on) if job.position < 3 else None

    with recording() as spans:
        async with working(app):
            await go_on.call()
    first, second, third, fourth = spans.named("process work")
    assert is_child(second, first)
    assert third.parent is None
    assert links(third, second)
    assert is_child(fourth, third)


@pytest.mark.parametrize("number", [-1, 1.5, True, "1"])
def test_a_wrong_setting_is_refused(number: Any) -> None:
    with pytest.raises(ConfigError, match=r"parent_up_to=.*: a whole number from 0"):
        traces.configure(parent_up_to=number)


# --- what is not sampled


@pytest.mark.parametrize("traceparent", [UNSAMPLED, f"00-{TRACE}-{SPAN}-02"])
async def test_the_handler_of_an_unsampled_job_runs_in_its_trace_and_records_nothing(
    app: Holdfast, spans: Recorder, traceparent: str
) -> None:
    @app.task(queue="work")
    async def work() -> list[str]:
        found = trace.get_current_span()
        with spans.tracer.start_as_current_span("own") as own:
            inside = own.get_span_context()
        return [repr(found), f"{found.get_span_context().trace_id:032x}", f"{inside.trace_id:032x}"]

    async with working(app):
        found = await work.options(headers={"traceparent": traceparent}).call()
    assert found == [f"SentSpan({traceparent})", TRACE, TRACE]
    assert [span.name for span in spans.ended if span.name != "send work"] == []


@pytest.mark.parametrize(
    "traceparent",
    [f"00-{'0' * 32}-{SPAN}-00", f"00-{TRACE}-{'0' * 16}-00", f"00-{TRACE}-{SPAN}-0", f"00-{TRACE.upper()}-{SPAN}-00"],
)
async def test_what_only_looks_unsampled_begins_a_trace(
    app: Holdfast, echo: Any, spans: Recorder, traceparent: str
) -> None:
    async with working(app):
        await echo.options(headers={"traceparent": traceparent}).call()
    assert _hex(spans.one("process work"))[0] != TRACE


async def test_an_unsampled_jobs_state_and_baggage_reach_its_handler(app: Holdfast, spans: Recorder) -> None:
    @app.task(queue="work")
    async def work() -> list[str]:
        state = trace.get_current_span().get_span_context().trace_state
        return [str(baggage.get_baggage("customer")), state.to_header()]

    async with working(app):
        headers = {"traceparent": UNSAMPLED, "tracestate": "vendor=1", "baggage": "customer=ann"}
        assert await work.options(headers=headers).call() == ["ann", "vendor=1"]
    assert spans.named("process work") == []


async def test_a_job_carries_the_very_text_that_the_propagators_would_write(app: Holdfast, spans: Recorder) -> None:
    from opentelemetry import propagate

    from holdfast.telemetry.traces.remote import injected

    with spans.tracer.start_as_current_span("own"):
        written: dict[str, str] = {}
        propagate.inject(written)
        assert injected() == written
        assert list(written) == ["traceparent"]
