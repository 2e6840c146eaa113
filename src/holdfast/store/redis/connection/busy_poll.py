"""Busy polling: who waits for a reply alone asks the socket for it over and over, before the loop goes to sleep.

A server on the same machine answers sooner than a process that sleeps is woken. It is polled for `MOST_SECONDS` at
most; where that was in vain, as with a server on another machine or one that is busy, the next calls do not poll, twice
as many each time.
"""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Callable
from time import perf_counter
from typing import Any

MOST_SECONDS = 0.00015
"""How long one call polls at most: what it wins is about a third of that."""
MOST_IN_A_ROW = 32
"""So many calls have their replies before the loop goes round, which has timers and other sockets to serve."""
FEWEST_LEFT_OUT, MOST_LEFT_OUT = 8, 4096
"""How many calls do not poll after one that did so in vain."""
BUFFER = 4096


class BusyPoll:
    """Takes in what comes on one socket, when nothing else is to be done in its loop."""

    def __init__(self, fd: int, ready: Any, received: Callable[[bytes], None]) -> None:
        self._fd = fd
        self._ready = ready
        """What the loop does before it looks at sockets."""
        self._received = received
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)
        self._in_a_row = 0
        self._left_out = 0
        self._leave_out = FEWEST_LEFT_OUT

    @classmethod
    def of(cls, transport: Any, loop: asyncio.AbstractEventLoop, received: Callable[[bytes], None]) -> BusyPoll | None:
        """Return what polls a connection; `None` for one with TLS, and for a loop that does not tell what is ready."""
        ready, sock = getattr(loop, "_ready", None), transport.get_extra_info("socket")
        if ready is None or sock is None or transport.get_extra_info("sslcontext") is not None:
            return None
        return cls(sock.fileno(), ready, received) if hasattr(select, "poll") and hasattr(os, "sched_yield") else None

    def take_reply(self) -> None:
        """Take in what the server answers within a moment, unless there is other work."""
        if self._left_out:
            self._left_out -= 1
        elif self._ready or self._in_a_row >= MOST_IN_A_ROW:
            self._in_a_row = 0
        elif self._is_there():
            self._in_a_row, self._leave_out = self._in_a_row + 1, FEWEST_LEFT_OUT
            self._take()
        else:
            self._in_a_row, self._left_out = 0, self._leave_out
            self._leave_out = min(2 * self._leave_out, MOST_LEFT_OUT)

    def _is_there(self) -> bool:
        poll, until = self._poll.poll, perf_counter() + MOST_SECONDS
        while not poll(0):
            if perf_counter() > until:
                return False
            os.sched_yield()  # whoever else wants this core, such as the server, goes first
        return True

    def _take(self) -> None:
        try:
            data = os.read(self._fd, BUFFER)
        except OSError:
            return  # the loop meets that, too
        if data:
            self._received(data)
