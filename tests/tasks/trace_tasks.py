"""Handlers that make spans of their own. A module, since processes import what they run."""

from __future__ import annotations

import os
from typing import Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import get_current_span

from holdfast import Continued, Holdfast, Job, Sandbox
from holdfast.telemetry import current_trace_id

app = Holdfast(os.environ.get("HOLDFAST_TEST_URL", "memory://traces"))
tracer = TracerProvider().get_tracer("trace_tasks")
"""The user's own: nothing of it is Holdfast's, and no provider is set for the process."""


def seen() -> dict[str, Any]:
    """Return where a span that is made here belongs."""
    with tracer.start_as_current_span("own") as own:
        parent = getattr(own, "parent", None)
        return {
            "trace": current_trace_id(),
            "own": f"{own.get_span_context().trace_id:032x}",
            "parent": None if parent is None else f"{parent.span_id:016x}",
            "is_valid": get_current_span().get_span_context().is_valid,
        }


@app.task(queue="here", executor="process")
def in_process() -> dict[str, Any]:
    return seen()


@app.task(queue="here", executor="process")
async def in_process_loop() -> dict[str, Any]:
    return seen()


@app.task(queue="here", executor="sandbox", sandbox=Sandbox())
def in_sandbox() -> dict[str, Any]:
    return seen()


@app.task(queue="here")
async def next_one(job: Job) -> dict[str, str]:
    return job.headers


@app.task(queue="here", executor="process")
async def passes_on(job: Job) -> Continued[dict[str, str]]:
    await next_one.options(job_id="enqueued").enqueue()
    return job.continue_with(next_one)
