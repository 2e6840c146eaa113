"""python -m benchmarks.traces: what traces cost a drain, beside a worker without them.

Each job is enqueued by a call of its own, with a context of its own, as in a web application (`--bulk`: all by one
call). Variants, each in a process and a store of its own, in turns: no OpenTelemetry; the same with a header of 55
characters in each job, as traces have it; OpenTelemetry's API imported and no provider set; a provider that samples
0 %, 1 % and 100 % of traces, with the SDK's batch processor and an exporter that drops.
On a machine that does something else meanwhile only the processor time means anything, and that of thousands of jobs.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from benchmarks.app import SLOTS, application, run
from benchmarks.script import Stopwatch, require
from benchmarks.store import STORES
from benchmarks.system import PAYLOAD, Place

VARIANTS = ("off", "headers", "no provider", "0", "0.01", "1")
TARGETS = {"no provider": 0.97, "0.01": 0.9}
"""The least part of the rate without traces."""
AT_ONCE = 200
NAMES = ("enqueue", "drain", "cpu")


def set_up(variant: str) -> None:
    """OpenTelemetry is as the variant has it."""
    if variant in ("off", "headers"):
        return
    from opentelemetry import trace

    if variant == "no provider":
        return
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
    from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio

    class Dropping(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    provider = TracerProvider(sampler=ParentBasedTraceIdRatio(float(variant)))
    provider.add_span_processor(BatchSpanProcessor(Dropping()))
    trace.set_tracer_provider(provider)


async def measured(place: Place, bulk: bool) -> dict[str, float]:
    """Jobs per second of the enqueues and of the drain, and microseconds of processor time for each job drained."""
    handled = 0

    def count() -> None:
        nonlocal handled
        handled += 1

    app, noop = application(place, count)
    if place.variant == "headers":
        noop = noop.options(headers={"own": "0" * 55})
    async with app:
        with Stopwatch() as filling:
            if bulk:
                await noop.enqueue_many(noop.args(PAYLOAD) for _ in range(place.jobs))
            for first in range(0, 0 if bulk else place.jobs, AT_ONCE):
                several = range(min(AT_ONCE, place.jobs - first))
                await asyncio.gather(*(noop.enqueue(PAYLOAD) for _ in several))
        with Stopwatch() as draining:
            before = time.process_time()
            await app.worker(slots=SLOTS).run(burst=True)
            spent = time.process_time() - before
    require(handled, place.jobs)
    cpu = spent * 1e6 / place.jobs
    return {"enqueue": place.jobs / filling.seconds, "drain": place.jobs / draining.seconds, "cpu": cpu}


def in_a_process(store: str, variant: str, jobs: int, bulk: bool) -> dict[str, float]:
    """Measure in a process and a store of its own."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder, STORES[store](Path(folder)) as url:
        order = json.dumps([url, folder, jobs, variant, bulk])
        command = [sys.executable, "-m", "benchmarks.traces", "--one", order]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def one(order: str) -> None:
    """Measure here, and print the figures."""
    url, folder, jobs, variant, bulk = json.loads(order)
    set_up(variant)
    print(json.dumps(run(measured(Place(url, Path(folder), jobs, variant if variant == "headers" else ""), bulk))))


@click.command()
@click.option("--store", type=click.Choice(sorted(STORES)), default="sqlite", show_default=True)
@click.option("--jobs", type=click.IntRange(1), default=20_000, show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True)
@click.option("--bulk", is_flag=True, help="Enqueue all jobs by one call, so that they share one context.")
@click.option("--check", is_flag=True, help="Exit with 1 if a target was missed.")
@click.option("--one", "order", hidden=True)
def main(store: str, jobs: int, rounds: int, bulk: bool, check: bool, order: str | None) -> None:
    """Measure what traces cost."""
    if order is not None:
        one(order)
        return
    figures = [{each: in_a_process(store, each, jobs, bulk) for each in VARIANTS} for _ in range(rounds)]
    table = Table("traces", "enqueue/s", "drain/s", "of the rate without", "target", "CPU µs a job", "CPU µs more")
    missed = False
    for variant in VARIANTS:
        rates = {name: statistics.median(each[variant][name] for each in figures) for name in NAMES}
        part = statistics.median(each[variant]["drain"] / each["off"]["drain"] for each in figures)
        more = statistics.median(each[variant]["cpu"] - each["off"]["cpu"] for each in figures)
        target = TARGETS.get(variant)
        missed = missed or (target is not None and part < target)
        name = f"{float(variant):.0%} sampled" if variant[0].isdigit() else variant
        table.add_row(
            name, f"{rates['enqueue']:,.0f}", f"{rates['drain']:,.0f}", f"{part:.2f}",
            "" if target is None else f"{target}", f"{rates['cpu']:.1f}", f"{more:+.1f}",
        )  # fmt: skip
    Console(width=120).print(table)
    sys.exit(1 if check and missed else 0)


if __name__ == "__main__":
    main()
