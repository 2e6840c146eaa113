"""Gathering: while the loop is busy with other handlers, one that has ended waits for more to end.

A call for one job costs worker and store nearly as much as one for ten. Where handlers keep the loop busy they would
start no sooner for a call that is made at once: it takes from them the time that it needs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter

MOST_SECONDS = 0.01
"""How long an end waits for others at most."""
IDLE_PASS = 0.0001
"""A pass of the loop that is shorter than this, in seconds, had nothing to do but to come back."""


async def gather(enough: Callable[[], bool]) -> None:
    """Return once there is enough, once the loop has nothing else to do, or after `MOST_SECONDS`."""
    began = last = perf_counter()
    while not enough():
        await asyncio.sleep(0)
        now = perf_counter()
        if now - last < IDLE_PASS or now - began > MOST_SECONDS:
            return
        last = now
