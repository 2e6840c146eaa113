"""The process that is measured: `python -m benchmarks.telemetry.measured ORDER`.

It uses the public API alone, as the Holdfast that it finds may be that of another commit.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.app import QUEUE, SLOTS, application, fill, run
from benchmarks.script import require
from benchmarks.system import CALLERS, PAYLOAD, Place
from benchmarks.telemetry.variants import COMPARISONS

AT_ONCE = 200
"""Single enqueues that are under way together."""
CALLS = 10
"""A call costs as much as so many jobs of a drain, so that there are fewer."""


@dataclass(frozen=True)
class Order:
    """What to measure."""

    what: str
    variant: str
    url: str
    jobs: int
    bulk: bool = False

    def text(self) -> str:
        return json.dumps(asdict(self))


class Figures(NamedTuple):
    """What a part has taken."""

    rate: float
    """Jobs a second."""
    cpu: float
    """Microseconds of this process's processor time for each job."""
    server: float
    """The same of a Redis server; 0 where there is none."""


class Meter:
    """Measures parts, one after the other."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def of(self, jobs: int, work: Callable[[], Awaitable[object]]) -> Figures:
        gc.collect()
        server, spent, began = self._server(), time.process_time(), time.perf_counter()
        await work()
        took, spent, server = time.perf_counter() - began, time.process_time() - spent, self._server() - server
        return Figures(jobs / took, spent / jobs * 1e6, server / jobs * 1e6)

    def _server(self) -> float:
        if not self._url.startswith("redis"):
            return 0.0
        import redis

        with redis.Redis.from_url(self._url) as client:
            used: Any = client.info("cpu")
        return float(used["used_cpu_user"] + used["used_cpu_sys"])


class Measured:
    """One variant, in this process."""

    def __init__(self, order: Order) -> None:
        self._options = COMPARISONS[order.what].variants[order.variant]()
        self._order = order
        self._handled = 0
        place = Place(order.url, Path(), order.jobs, "memory" if order.url == "memory" else "")
        self._app, self._noop = application(place, self._count)
        if order.variant in COMPARISONS[order.what].headers:
            self._noop = self._noop.options(headers={"own": "0" * 55})

    def _count(self) -> None:
        self._handled += 1

    async def figures(self) -> dict[str, Figures]:
        """Return the figures of each measure."""
        order, meter, found = self._order, Meter(self._order.url), dict[str, Figures]()
        async with self._app:
            if "enqueue" in COMPARISONS[order.what].measures:
                found["enqueue"] = await meter.of(order.jobs, self._fill)
            else:
                found["bulk"] = await meter.of(order.jobs, lambda: fill(self._noop, order.jobs))
            found["drain"] = await meter.of(order.jobs, self._drain)
            require(self._handled, order.jobs)
            if "call" in COMPARISONS[order.what].measures:
                found |= await self._calls(meter, max(1, order.jobs // CALLS))
        return found

    async def _fill(self) -> None:
        if self._order.bulk:
            await fill(self._noop, self._order.jobs)
        for first in range(0, 0 if self._order.bulk else self._order.jobs, AT_ONCE):
            several = range(min(AT_ONCE, self._order.jobs - first))
            await asyncio.gather(*(self._noop.enqueue(PAYLOAD) for _ in several))

    async def _drain(self) -> None:
        await self._app.worker(queues=[QUEUE], slots=SLOTS, **self._options).run(burst=True)

    async def _calls(self, meter: Meter, calls: int) -> dict[str, Figures]:
        """Caller and worker are in this process, so that its processor time has both."""
        worker = self._app.worker(queues=[QUEUE], slots=SLOTS, **self._options)
        await worker.start()

        async def one_caller(calls: int = calls) -> None:
            for _ in range(calls):
                await self._noop.call(PAYLOAD)

        async def callers() -> None:
            await asyncio.gather(*(one_caller(calls // CALLERS) for _ in range(CALLERS)))

        await one_caller(10)
        found = {
            "call": await meter.of(calls, one_caller),
            "callers": await meter.of(calls // CALLERS * CALLERS, callers),
        }
        await worker.stop()
        return found


if __name__ == "__main__":
    print(json.dumps(run(Measured(Order(**json.loads(sys.argv[1]))).figures())))
