"""A process finds out that its event loop does not move, and whose handler holds it up."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

from . import wire

STUCK = 0.5
"""After so many seconds without a move, a loop is held up."""
GLANCE = 0.2


def watch_loop(
    loop: asyncio.AbstractEventLoop,
    is_at_work: Callable[[], bool],
    blocker: Callable[[], int],
    say: Callable[[wire.FromProcess], None],
) -> None:
    """From now on the worker hears when the loop stands still while something is at work, and when it moves again."""

    def look() -> None:
        while True:
            if is_at_work():
                moved = threading.Event()
                loop.call_soon_threadsafe(moved.set)
                if not moved.wait(STUCK):
                    say(wire.Stuck(blocker()))
                    moved.wait()
                    say(wire.Stuck(None))
            time.sleep(GLANCE)

    threading.Thread(target=look, name="holdfast-holdup", daemon=True).start()
