"""End a worker's process in time, whatever its handlers do."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ..output import say_note

LEFT = 1
"""The exit code of a process that had to be ended with handlers in it."""
_grace: list[float] = []
"""Seconds that the rest of this program may take to end, once its worker has ended."""


@contextmanager
def ends_within(seconds: float, left: list[str]) -> Iterator[None]:
    """End the process with exit code 1 when the block takes longer; `left` names what still runs."""
    timer = threading.Timer(seconds, _end, (left,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def close(runner: asyncio.Runner, grace: float, left: list[str]) -> None:
    """Close the loop of a worker that has ended; handlers that were left behind end with the process."""
    _grace.append(grace)
    with ends_within(0.0 if left else grace, left):
        runner.close()


def end_soon() -> None:
    """End the process after the grace, though threads of handlers still run. To be called last."""
    if _grace:
        timer = threading.Timer(_grace[-1], _end, ([],))
        timer.daemon = True
        timer.start()


def _end(left: list[str]) -> None:
    names = ", ".join(left or _threads()) or "a coroutine that does not heed being cancelled"
    say_note(f"the worker has stopped, and what does not end by itself ends with it: {names}")
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(LEFT)


def _threads() -> list[str]:
    main = threading.main_thread()
    return [f"thread {each.name}" for each in threading.enumerate() if not each.daemon and each is not main]
