"""Time travel: the manual clock goes to what is due next, or lets a time pass and runs all that comes due in it."""

from __future__ import annotations

from functools import partial

from ..app.app import Holdfast
from ..core.duration import Duration, to_ms
from ..errors import HoldfastError
from .clock import ManualClock
from .drain import Ran, drain
from .due import due_after


async def advance_to_next(app: Holdfast, clock: ManualClock) -> float:
    """Move the clock to when the next scheduled job, a retry say, or tick of a schedule is due; return by how much."""
    async with app:
        due = await due_after(app, clock.now_ms)
    if due is None:
        raise AssertionError("nothing is due later: no job is scheduled, and no schedule has a tick to come")
    seconds = (due.at_ms - clock.now_ms) / 1000
    clock.advance(seconds)
    return seconds


async def travel(
    app: Holdfast,
    clock: ManualClock,
    time: Duration,
    *,
    raise_errors: bool = False,
    threads: bool = False,
    limit: int = 10_000,
) -> list[Ran]:
    """Let a time pass, and run every job when it is due: delays, retries and each tick of schedules; return what ran.

    `raise_errors` and `threads` are those of `drain`. After `limit` stops on the way it gives up.
    """
    end_ms = clock.now_ms + to_ms(time, "time")
    run_due = partial(drain, app, raise_errors=raise_errors, threads=threads)
    async with app:
        ran = await run_due()
        for _ in range(limit):
            due = await due_after(app, clock.now_ms)
            if due is None or due.at_ms > end_ms:
                clock.advance((end_ms - clock.now_ms) / 1000)
                return ran
            clock.advance((due.at_ms - clock.now_ms) / 1000)
            ran += await run_due()
    raise HoldfastError(f"travel() has stopped {limit} times on its way: let less time pass at once, or raise limit=")
