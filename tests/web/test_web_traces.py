"""Jobs that come over HTTP belong to the trace of their request."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from spans import Recorder, recording
from web_case import serving

from holdfast import Holdfast
from holdfast.telemetry import trace_id
from holdfast.telemetry.traces import current_trace_id

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
HEADERS = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01", "baggage": "tenant=acme", "x-own": "kept out"}
MANY = {"jobs": [{"queue": queue, "payload": 1, "id": queue} for queue in ("a", "b")]}


@pytest.fixture
def spans() -> Iterator[Recorder]:
    with recording() as recorder:
        yield recorder


async def test_a_job_carries_the_context_of_its_request(url: str) -> None:
    app = Holdfast(url)
    async with serving(app) as client:
        await client.post("/jobs", json={"queue": "one", "payload": 1}, headers=HEADERS)
        await client.post("/jobs/bulk", json=MANY, headers=HEADERS)
        jobs = (await app.jobs()).jobs
        assert [job.headers for job in jobs] == [{name: HEADERS[name] for name in ("traceparent", "baggage")}] * 3
        assert current_trace_id() is None, "the context ends with the request"
        for text in ("rubbish", "00-" + "0" * 32 + "-00f067aa0ba902b7-01", "\xff"):
            await client.post(
                "/jobs", json={"queue": "bad", "payload": 1}, headers={"traceparent": text.encode("latin-1")}
            )
        assert [job.headers for job in (await app.jobs(queue="bad")).jobs] == [{}] * 3


async def test_what_a_job_says_itself_goes_before_its_request(url: str) -> None:
    app, own = Holdfast(url), {"traceparent": "00-" + "a" * 32 + "-" + "b" * 16 + "-00"}
    async with serving(app) as client:
        await client.post("/jobs", json={"queue": "one", "payload": 1, "headers": own}, headers=HEADERS)
        (job,) = (await app.jobs()).jobs
        assert job.headers == own


async def test_one_request_is_one_span_in_the_trace_of_its_caller(url: str, spans: Recorder) -> None:
    app = Holdfast(url)
    async with serving(app) as client:
        await client.post("/jobs", json={"queue": "one", "payload": 1}, headers=HEADERS)
        await client.post("/jobs/bulk", json=MANY, headers=HEADERS)
        assert {trace_id(job.headers) for job in (await app.jobs()).jobs} == {TRACE}
    found = [spans.one("send one"), spans.one("send")]
    assert {f"{span.context.trace_id:032x}" for span in found if span.context} == {TRACE}
    assert [span.parent.span_id for span in found if span.parent] == [0x00F067AA0BA902B7] * 2


async def test_a_span_that_the_program_has_begun_for_the_request_goes_before(url: str, spans: Recorder) -> None:
    app = Holdfast(url)
    async with serving(app) as client:
        with spans.tracer.start_as_current_span("server"):
            await client.post("/jobs", json={"queue": "one", "payload": 1}, headers=HEADERS)
    sent, server = spans.one("send one"), spans.one("server")
    assert sent.parent is not None
    assert server.context is not None
    assert sent.parent.span_id == server.context.span_id
