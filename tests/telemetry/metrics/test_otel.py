"""The same metrics through OpenTelemetry, with its SDK's in-memory reader, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.telemetry.metrics.table import PROCESS_TABLE, STORE_TABLE

PROGRAM = """
import asyncio, json, sys
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

reader = InMemoryMetricReader()
metrics.set_meter_provider(MeterProvider([reader]))

from holdfast import Holdfast
from holdfast.telemetry.metrics.otel import observe_store
from holdfast.telemetry.metrics.store import StoreMeter

app = Holdfast("memory://"%s)


@app.task(queue="mail")
async def send(n: int) -> int:
    if n == 3:
        raise ValueError(n)
    return n


async def main():
    async with app, app.worker():
        for n in range(3):
            await send.call(n)
        meter = StoreMeter(app.store)
        await meter.samples()
        observe_store(lambda: meter.latest)
        return reader.get_metrics_data()

data = asyncio.run(main())
found = {}
for resource in data.resource_metrics if data else ():
    for scope in resource.scope_metrics:
        for metric in scope.metrics:
            points = metric.data.data_points
            found[metric.name] = [
                [dict(p.attributes), getattr(p, "value", None), getattr(p, "count", None)] for p in points
            ]
json.dump(found, sys.stdout)
"""


def run(tmp_path: Path, options: str = "") -> dict[str, list[tuple[dict[str, str], float | None, int | None]]]:
    """Return what OpenTelemetry's reader has of a worker that ran three jobs."""
    command = [sys.executable, "-W", "error", "-c", PROGRAM % options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[tuple[dict[str, str], float | None, int | None]]] = json.loads(done.stdout)
    return found


def test_a_provider_that_is_set_gets_everything_under_the_same_names(tmp_path: Path) -> None:
    found = run(tmp_path)
    mail = {"queue": "mail", "task": "send"}
    for name in ("enqueued", "started", "completed"):
        assert [mail, 3, None] in found[f"holdfast.jobs.{name}"]
    for name in ("wait", "run"):
        assert found[f"holdfast.job.{name}"] == [[mail, None, 3]]
    calls = {point[0]["call"]: point[2] for point in found["holdfast.store.call.duration"]}
    assert calls["enqueue"] == 3
    assert [{"queue": "mail", "state": "completed"}, 3, None] in found["holdfast.queue.jobs"]
    assert [{}, 1, None] in found["holdfast.store.up"]
    known = {metric.name for metric in (*PROCESS_TABLE, *STORE_TABLE)}
    assert set(found) <= known
    assert {"holdfast.worker.slots", "holdfast.worker.info", "holdfast.turn.claimed"} <= set(found)


def test_an_app_that_wants_no_metrics_has_none(tmp_path: Path) -> None:
    assert "holdfast.jobs.started" not in run(tmp_path, ", metrics=False")


@pytest.mark.parametrize("block", [True, False], ids=["not installed", "no provider"])
def test_without_a_provider_nothing_of_opentelemetry_is_imported(tmp_path: Path, block: bool) -> None:
    program = (
        ("import sys\nsys.modules['opentelemetry'] = None\n" if block else "import sys\n")
        + "import asyncio\nfrom holdfast import Holdfast\n"
        "app = Holdfast('memory://')\napp.queue('mail')\n"
        "async def main():\n"
        "    async with app, app.worker(metrics_port=0): pass\n"
        "asyncio.run(main())\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry.')]\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
