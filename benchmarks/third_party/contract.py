"""The contract of the third-party harness: tokens come in by lines, samples go out as JSON lines, until a SIGTERM.

Standard library only: every system's own environment imports this module. The harness sets SAMPLE_EVERY_S,
PRODUCER_RATE, PRODUCER_PACING, JOB_WORK_MS, JOB_PAYLOAD_BYTES, WORKER_COUNT and BENCH_INSTANCE_ID; with
PRODUCER_PACING=harness it writes `ENQUEUE n` whenever so many jobs are due, else the adapter keeps the pace by itself.
"""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from benchmarks.script import say

WINDOW = 30.0
REMEMBERED = 20_000
"""Latencies that are kept at most, so that memory is bounded."""
READ = 65_536
TICK = 0.025
PARTING = 4.0
"""Seconds that a worker has to stop: the harness allows five."""


class Steady(Protocol):
    """What the contract needs of a system."""

    async def many(self, data: str, count: int) -> None: ...

    async def work(self, handle: Callable[[str], Awaitable[None]]) -> None: ...


@dataclass(frozen=True)
class Settings:
    """What the harness says by its variables."""

    every: float
    rate: float
    paced_by_harness: bool
    work: float
    payload: int
    observes: bool
    """The first replica alone tells what is true of all of them."""

    @classmethod
    def read(cls, given: Any = os.environ) -> Settings:
        return cls(
            every=float(given.get("SAMPLE_EVERY_S", "5")),
            rate=float(given.get("PRODUCER_RATE", "800")),
            paced_by_harness=given.get("PRODUCER_PACING", "adapter") == "harness",
            work=float(given.get("JOB_WORK_MS", "1")) / 1000,
            payload=int(given.get("JOB_PAYLOAD_BYTES", "256")),
            observes=given.get("BENCH_INSTANCE_ID", "0") == "0",
        )


class Course:
    """What has happened since the last sample, and how long jobs waited lately."""

    def __init__(self) -> None:
        self.enqueued = self.completed = 0
        self._waits: deque[tuple[float, float]] = deque(maxlen=REMEMBERED)

    def waited(self, seconds: float) -> None:
        self._waits.append((time.monotonic(), max(0.0, seconds) * 1000))

    def percentiles(self) -> tuple[float, float, float]:
        """The 50th, 95th and 99th of the last 30 seconds, in milliseconds."""
        since = time.monotonic() - WINDOW
        lately = [wait for at, wait in self._waits if at >= since]
        if len(lately) < 2:
            return (lately[0],) * 3 if lately else (0.0, 0.0, 0.0)
        cuts = statistics.quantiles(lately, n=100, method="inclusive")
        return cuts[49], cuts[94], cuts[98]


async def steady(system: Steady, name: str, depth: Callable[[], Awaitable[int]] | None = None) -> None:
    """Enqueue as told, work, and tell every few seconds how it goes, until a SIGTERM."""
    settings, course, over = Settings.read(), Course(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, over.set)
    parts = [
        asyncio.create_task(_work(system, settings, course)),
        asyncio.create_task(_produce(system, settings, course)),
        asyncio.create_task(_tell(name, settings, course, depth)),
    ]
    ended = asyncio.create_task(over.wait())
    done, _ = await asyncio.wait([*parts, ended], return_when=asyncio.FIRST_COMPLETED)
    for part in parts:
        part.cancel()
    await asyncio.wait(parts, timeout=PARTING)
    for part in done - {ended}:
        part.result()  # a part that ended by itself has failed


async def _work(system: Steady, settings: Settings, course: Course) -> None:
    async def handle(data: str) -> None:
        with suppress(ValueError):  # a job that somebody else has left
            course.waited(time.time() - float(data[:20]))
        if settings.work:
            await asyncio.sleep(settings.work)
        course.completed += 1

    await system.work(handle)


async def _produce(system: Steady, settings: Settings, course: Course) -> None:
    due = _tokens() if settings.paced_by_harness else _pace(settings.rate)
    async for count in due:
        data = f"{time.time():020.6f}".ljust(settings.payload, "x")
        try:
            await system.many(data, count)
        except Exception as error:  # the store may be away for a while: that is what some scenarios are about
            print(f"{count} jobs were not enqueued: {error!r}", file=sys.stderr)
            continue
        course.enqueued += count


async def _tokens() -> Any:
    """The numbers of the lines `ENQUEUE n`; what has come while others were enqueued is taken together."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    rest = b""
    while text := await reader.read(READ):
        *lines, rest = (rest + text).split(b"\n")
        if due := sum(token(line.decode()) for line in lines):
            yield due
    await asyncio.Event().wait()  # nobody tells any more, and the worker goes on


def token(line: str) -> int:
    """How many jobs a line tells to enqueue; 0 for any other line."""
    word, _, number = line.partition(" ")
    return int(number) if word == "ENQUEUE" and number.strip().isdigit() else 0


async def _pace(rate: float) -> Any:
    """As many as are due by the clock, whatever the last ones took."""
    began, given = time.monotonic(), 0
    while True:
        await asyncio.sleep(TICK)
        due = int((time.monotonic() - began) * rate) - given
        if due > 0:
            given += due
            yield due


async def _tell(name: str, settings: Settings, course: Course, depth: Callable[[], Awaitable[int]] | None) -> None:
    due = time.time() // settings.every * settings.every + settings.every
    await asyncio.sleep(due - time.time())
    before, at = (course.enqueued, course.completed), time.monotonic()
    while True:
        due += settings.every
        await asyncio.sleep(max(0.0, due - time.time()))
        now, seconds = (course.enqueued, course.completed), time.monotonic() - at
        enqueued, completed = ((after - start) / seconds for after, start in zip(now, before, strict=True))
        before, at = now, time.monotonic()
        p50, p95, p99 = course.percentiles()
        _say(name, {"claim_p50_ms": p50, "claim_p95_ms": p95, "claim_p99_ms": p99}, WINDOW)
        _say(name, {"enqueue_rate": enqueued, "completion_rate": completed}, settings.every)
        if depth is not None and settings.observes:
            with suppress(Exception):  # the store is away
                _say(name, {"queue_depth": float(await depth())}, 0.0)


def _say(name: str, figures: dict[str, float], window: float) -> None:
    for metric, value in figures.items():
        common = {"t": iso_now(), "system": name, "kind": "adapter", "subject_kind": "adapter", "subject": ""}
        say(**common, metric=metric, value=value, window_s=window)


def iso_now() -> str:
    """The time as the harness writes it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
