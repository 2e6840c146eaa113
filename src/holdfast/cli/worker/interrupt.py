"""What a worker says at Ctrl-C: how many jobs it finishes, and how they are handed back."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ...worker.signals import heard
from ..output import say


@contextmanager
def interrupts_told(running: Callable[[], str]) -> Iterator[None]:
    """Say on stderr, within the block, what a signal from the keyboard does; `running` returns what runs, in words."""
    loop, before = asyncio.get_running_loop(), list[int]()

    def on_signal(number: int) -> None:
        before.append(number)
        if number == signal.SIGINT:
            loop.call_soon_threadsafe(_tell, running(), len(before))

    with heard(on_signal, acts=False):  # a signal that comes before the worker listens must not be lost
        yield


def _tell(running: str, count: int) -> None:
    if running and count == 1:
        what = "it" if running == jobs(1) else "them"
        say(f"finishing {running}; press Ctrl-C again to hand {what} back", err=True)
    elif running and count == 2:
        say(f"handing back {running}", err=True)


def jobs(count: int) -> str:
    """Return a number of jobs in words; nothing for none."""
    return "" if not count else "1 job" if count == 1 else f"{count} jobs"
