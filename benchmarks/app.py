"""Holdfast as any user would set it up: one app, one task, one worker."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from benchmarks.script import CostWatch, require
from benchmarks.system import PAYLOAD, Place

T = TypeVar("T")

QUEUE = "bench"
SLOTS = 100


def address(place: Place) -> str:
    if place.variant == "memory":
        return "memory://"
    if "://" in place.url:
        return place.url
    return f"sqlite:///{place.url}" + ("?synchronous=full" if place.variant == "full" else "")


def application(place: Place, then: Callable[[], object] = lambda: None) -> tuple[Any, Any]:
    """An app and its one task, whose handler does nothing but call `then`."""
    from holdfast import Holdfast

    app = Holdfast(address(place))

    @app.task(queue=QUEUE)
    async def noop(data: str) -> None:
        then()

    return app, noop


async def burst(place: Place, then: Callable[[], object] = lambda: None, *, fill_first: bool = False) -> CostWatch:
    handled = 0

    def count() -> None:
        nonlocal handled
        handled += 1
        then()

    app, noop = application(place, count)
    async with app:
        if fill_first:
            await fill(noop, place.jobs)
        worker = app.worker(queues=[QUEUE], slots=SLOTS)
        with CostWatch() as watch:
            await worker.run(burst=True)
    require(handled, place.jobs)
    return watch


async def fill(noop: Any, jobs: int) -> None:
    await noop.enqueue_many(noop.args(PAYLOAD) for _ in range(jobs))


def fill_elsewhere(place: Place) -> None:
    """The jobs are in the store, put there by another process: the worker's own stays as it starts."""
    options = (f"--{name}={getattr(place, name)}" for name in ("url", "folder", "jobs", "variant"))
    subprocess.run([sys.executable, "-m", "benchmarks.ours", "bulk", *options], check=True, stdout=sys.stderr)


def run(work: Coroutine[Any, Any, T]) -> T:
    with new_runner() as runner:
        return runner.run(work)


def new_runner() -> asyncio.Runner:
    """Return the loop of a measured program: asyncio's own, as `holdfast worker` has it."""
    return asyncio.Runner()
