"""Round trips: what one caller waits for, and how many come through when many call at once.

Standard library only: every system's own environment imports this module.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable

from benchmarks.script import Stopwatch, quantiles, say
from benchmarks.system import CALLERS, CALLS, WARM_CALLS

LONGEST = 5.0
"""Seconds after which no further call is begun: a system that polls would take minutes for all of them."""


async def trips(call: Callable[[], Awaitable[object]]) -> None:
    """Both figures are said, by tasks of this loop."""
    for _ in range(WARM_CALLS):
        await call()
    _say_quantiles([await _timed(call) for _ in _until(5 * CALLS)])
    done = 0

    async def caller() -> None:
        nonlocal done
        for _ in _until(CALLS):
            await call()
            done += 1

    with Stopwatch() as watch:
        await asyncio.gather(*(caller() for _ in range(CALLERS)))
    _say_rate(done, watch)


def trips_in_threads(call: Callable[[], object]) -> None:
    """The same for a system that blocks: a thread for each caller."""
    for _ in range(WARM_CALLS):
        call()
    _say_quantiles([_timed_here(call) for _ in _until(5 * CALLS)])
    done: list[int] = []

    def caller() -> None:
        for _ in _until(CALLS):
            call()
            done.append(1)

    threads = [threading.Thread(target=caller) for _ in range(CALLERS)]
    with Stopwatch() as watch:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    _say_rate(len(done), watch)


class _until:
    """So many rounds, or fewer where the time is over; one at least."""

    def __init__(self, most: int) -> None:
        self._left = most
        self._deadline = time.monotonic() + LONGEST
        self._begun = False

    def __iter__(self) -> _until:
        return self

    def __next__(self) -> None:
        if self._left == 0 or (self._begun and time.monotonic() > self._deadline):
            raise StopIteration
        self._left -= 1
        self._begun = True


async def _timed(call: Callable[[], Awaitable[object]]) -> float:
    with Stopwatch() as watch:
        await call()
    return watch.seconds


def _timed_here(call: Callable[[], object]) -> float:
    with Stopwatch() as watch:
        call()
    return watch.seconds


def _say_quantiles(seconds: list[float]) -> None:
    for metric, value in quantiles("call_", [each * 1000 for each in seconds]).items():
        say(metric=metric, value=value)


def _say_rate(done: int, watch: Stopwatch) -> None:
    say(metric="callers", value=done / watch.seconds)
