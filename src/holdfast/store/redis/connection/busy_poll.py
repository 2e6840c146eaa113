"""Busy polling: who waits for a reply alone asks the socket for it over and over, before the loop goes to sleep.

A server on the same machine may answer sooner than a process that sleeps is woken; or later, where the two and a worker
share two cores. So it is tried: now and then every other call polls, and for a while all do, or none, whichever was
answered sooner.
"""

from __future__ import annotations

import asyncio
import os
import select
import statistics
from collections.abc import Callable
from time import perf_counter
from typing import Any

from ...prompt import Prompt

MOST_SECONDS = 0.00015
"""How long one call polls at most: what it wins is about a third of that."""
MOST_IN_A_ROW = 32
"""So many calls have their replies before the loop goes round, which has timers and other sockets to serve."""
TRIED = 32
"""How many calls poll, and how many do not, until it is judged."""
WORTH = 0.9
"""Polling keeps a core busy: it must have its replies in so much of the time."""
JUDGED_FOR = 4096
"""How many calls go by a judgement before it is tried anew."""
IN_VAIN = 512
"""One that polled in vain brings the next trial so many calls nearer."""
BUFFER = 4096


class BusyPoll:
    """Takes in what comes on one socket, when nothing else is to be done in its loop and it is worth it."""

    def __init__(self, fd: int, ready: Any, received: Callable[[bytes], None]) -> None:
        self._fd = fd
        self._ready = ready
        """What the loop does before it looks at sockets."""
        self._received = received
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)
        self._in_a_row = 0
        self._worth = False
        self._left = 0
        """How many calls still go by the judgement; none in a trial."""
        self._polls = True
        """Whether the next call of a trial does."""
        self._seconds: dict[bool, list[float]] = {False: [], True: []}
        """Of a trial: how long replies took without polling, and with it."""

    @classmethod
    def of(cls, transport: Any, loop: asyncio.AbstractEventLoop, received: Callable[[bytes], None]) -> BusyPoll | None:
        """Return what polls a connection; `None` for one with TLS, and for a loop that does not tell what is ready."""
        ready, sock = getattr(loop, "_ready", None), transport.get_extra_info("socket")
        if ready is None or sock is None or transport.get_extra_info("sslcontext") is not None:
            return None
        return cls(sock.fileno(), ready, received) if hasattr(select, "poll") and hasattr(os, "sched_yield") else None

    async def reply(self, told: Prompt[Any]) -> Any:
        """Return what was asked for a moment ago, once it is told."""
        if self._left > 0:
            self._left -= 1
            if self._worth:
                self._take_reply()
            return await told
        polls, self._polls, asked_at = self._polls, not self._polls, perf_counter()
        if polls:
            self._take_reply()
        else:
            self._in_a_row = 0  # the loop goes round now
        reply = await told
        self._seconds[polls].append(perf_counter() - asked_at)
        if len(self._seconds[True]) >= TRIED <= len(self._seconds[False]):
            self._judge()
        return reply

    def _judge(self) -> None:
        slept, polled = (statistics.median(self._seconds[polls]) for polls in (False, True))
        self._worth, self._left = polled <= WORTH * slept, JUDGED_FOR
        self._seconds = {False: [], True: []}

    def _take_reply(self) -> None:
        """Take in what the server answers within a moment, unless there is other work."""
        if self._ready or self._in_a_row >= MOST_IN_A_ROW:
            self._in_a_row = 0
        elif self._is_there():
            self._in_a_row += 1
            self._take()
        else:
            self._in_a_row = 0
            self._left -= IN_VAIN

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
