"""The end of a worker's run: what still runs has time, then a signal, and is handed back at last."""

from __future__ import annotations

import asyncio
import logging
import time

from .pump import Pump

log = logging.getLogger("holdfast")


async def shut_down(pump: Pump, drain: float, grace: float, hurry: asyncio.Event) -> None:
    """Drain, then signal, then hand back what is left. With `hurry` the drain is over at once."""
    over = time.monotonic() + drain
    await _first(min(grace, drain), pump.drained, hurry)
    pump.count_on_no_claim()  # of a store that has not answered by now
    await _first(max(0.0, over - time.monotonic()), pump.drained, hurry)
    if pump.running:
        log.warning("%d handlers still run: telling them to stop", len(pump.running))
        pump.abort_all("shutdown")
        await _first(grace, pump.drained)
    if pump.running:
        log.warning("%d handlers do not stop: their jobs are handed back", len(pump.running))
        pump.give_up_all()
        await _first(grace, pump.drained)
    if pump.running:
        pump.abandon_all()
    pump.last_try = time.monotonic() + grace
    pump.alarm.ring()


async def _first(seconds: float, *events: asyncio.Event) -> None:
    """Return when one of the events is set, or the time is over."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waiting:
            wait.cancel()
