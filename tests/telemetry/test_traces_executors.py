"""Traces in processes and sandboxes, and where OpenTelemetry is not there at all."""

from __future__ import annotations

import importlib
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import pytest
from spans import Recorder, context, is_child
from support import working

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of handlers, with a store of its own."""
    monkeypatch.setenv("HOLDFAST_TEST_URL", f"sqlite:///{tmp_path}/jobs.db")
    sys.modules.pop("trace_tasks", None)
    return importlib.import_module("trace_tasks")


@pytest.mark.parametrize("name", ["in_process", "in_process_loop", "in_sandbox"])
async def test_spans_that_a_handler_makes_in_a_process_are_children_of_its_attempt(
    tasks: ModuleType, spans: Recorder, name: str
) -> None:
    async with working(tasks.app):
        seen = await getattr(tasks, name).call()
    ran = spans.one("process here")
    trace, span = f"{context(ran).trace_id:032x}", f"{context(ran).span_id:016x}"
    assert seen == {"trace": trace, "own": trace, "parent": span, "is_valid": True}


async def test_what_a_handler_in_a_process_enqueues_is_of_its_trace(tasks: ModuleType, spans: Recorder) -> None:
    async with working(tasks.app):
        continued = await tasks.passes_on.call()
        enqueued = await tasks.next_one.result("enqueued")
    ran = spans.of("passes_on")
    trace, span = f"{context(ran).trace_id:032x}", f"{context(ran).span_id:016x}"
    for headers in (continued, enqueued):
        assert headers["traceparent"].startswith(f"00-{trace}-{span}-")
    after = [each for each in spans.named("process here") if each is not ran]
    assert len(after) == 2
    assert all(is_child(each, ran) for each in after)


async def test_without_a_provider_a_process_hands_the_context_on(tasks: ModuleType) -> None:
    given = f"00-{TRACE}-{SPAN}-01"
    async with working(tasks.app):
        continued = await tasks.passes_on.options(headers={"traceparent": given}).call()
        enqueued = await tasks.next_one.result("enqueued")
        seen = await tasks.in_sandbox.options(headers={"traceparent": given}).call()
    assert continued == enqueued == {"traceparent": given}
    assert seen == {"trace": TRACE, "own": TRACE, "parent": SPAN, "is_valid": True}


PROGRAM = """
    import asyncio, sys
    {before}
    from holdfast import Holdfast, Job
    from holdfast.telemetry import current_trace_id

    app = Holdfast("memory://")

    @app.task()
    async def last(job: Job) -> str:
        return job.headers["traceparent"] + " " + current_trace_id()

    @app.task()
    async def first(job: Job) -> str:
        return job.continue_with(last)

    async def main() -> None:
        async with app:
            handle = await first.options(headers={{"traceparent": "{given}"}}).enqueue()
            await app.worker().run(burst=True)
            print(await handle.result())

    asyncio.run(main())
    print([name for name in sys.modules if name.startswith("opentelemetry") and sys.modules[name] is not None])
"""


@pytest.mark.parametrize("before", ["sys.modules['opentelemetry'] = None", ""], ids=["not installed", "not used"])
def test_without_opentelemetry_everything_works_and_nothing_of_it_is_imported(before: str) -> None:
    given = f"00-{TRACE}-{SPAN}-01"
    program = textwrap.dedent(PROGRAM).format(before=before, given=given)
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stderr, done.stdout.splitlines()) == ("", [f"{given} {TRACE}", "[]"])
