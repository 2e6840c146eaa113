"""What one process hears: one subscription for all its parked workers and all its waiting callers.

A wake-up is a hint. One that is lost costs a poll; after a reconnect everybody looks once.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import re
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from hiredis import pack_command
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError

from ...errors import HoldfastError, StoreError
from ..contract import Finished
from .gift import Gifts
from .keys import Keys, long
from .link import Unsent
from .record import STATES
from .server import Server
from .wire import Wire

log = logging.getLogger("holdfast")
QUIET = 15.0
"""After so many silent seconds the connection is tried."""
LONGEST_PAUSE = 2.0


_NEWS = struct.Struct(">c6sHI")
_MESSAGE = re.compile(rb"(\d+)([=!]?)").match


def watched_words(text: bytes) -> Iterator[Finished]:
    """Yield what a message says of watched runs of one queue; `news` in tell.lua writes it."""
    at = 2 + int.from_bytes(text[:2], "big")
    queue = text[2:at].decode()
    while at < len(text):
        letter, run, id_size, result_size = _NEWS.unpack_from(text, at)
        result_at = at + _NEWS.size + id_size
        at_id, at = at + _NEWS.size, result_at + max(0, result_size - 1)
        result = text[result_at:at] if result_size else None
        yield Finished(queue, long(text[at_id:result_at]), int.from_bytes(run, "big"), STATES[letter], result)


class Listener:
    """One of those who hear on an ear."""

    def __init__(
        self, ear: Ear, number: int, on_wake: Callable[[], None], on_finished: Callable[[Finished], None]
    ) -> None:
        self._ear = ear
        self._number = number
        self.address = f"{ear.channel}#{number}"
        self.on_wake = on_wake
        self.on_finished = on_finished
        self.gifts: Gifts | None = None
        """What the session that hears here was given."""

    def close(self) -> None:
        """Hear nothing more."""
        self._ear.listeners.pop(self._number, None)


class Ear:
    """A subscription that is kept up."""

    def __init__(self, server: Server, keys: Keys) -> None:
        self._server = server
        self.channel = keys.channel(os.urandom(8).hex())
        self.listeners: dict[int, Listener] = {}
        self._numbers = itertools.count(1)
        self._task: asyncio.Task[None] | None = None
        self._subscribed = asyncio.Event()
        self._before = False
        self._heard = self._asked = False
        """Whether anything was heard lately; and whether the connection was tried because it was not."""

    async def listen(self, on_wake: Callable[[], None], on_finished: Callable[[Finished], None]) -> Listener:
        """Return a listener that hears from now on."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._keep_up())
        number = next(self._numbers)
        listener = self.listeners[number] = Listener(self, number, on_wake, on_finished)
        try:
            async with asyncio.timeout(self._server.place.retry_for + 1):
                await self._subscribed.wait()
        except TimeoutError:
            listener.close()
            raise StoreError(f"{self._server.place} cannot be subscribed to; check that it runs") from None
        return listener

    async def _keep_up(self) -> None:
        pause = 0.02
        while True:
            try:
                connection = await self._server.connection()
                try:
                    await self._hear(connection)
                finally:
                    await connection.disconnect()
            except (Unsent, RedisError, OSError, TimeoutError, HoldfastError) as error:
                if self._subscribed.is_set():
                    log.warning("wake-ups are late until %s is back: %s", self._server.place, error)
                    pause = 0.02
                self._subscribed.clear()
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _hear(self, connection: AbstractConnection) -> None:
        """Everybody hears until the connection ends, which raises."""
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def end(reason: str) -> None:
            if not over.done():
                over.set_exception(OSError(reason))
                over.exception()  # when the ear is being closed, nobody listens any more

        def hear(reply: Any) -> None:
            self._heard = True
            if isinstance(reply, list):
                self._on_message(reply)
            elif isinstance(reply, Exception):
                end(str(reply))

        wire = Wire(connection, hear, end)
        subscribe: tuple[Any, ...] = ("SUBSCRIBE", self.channel)
        wire.transport.write(pack_command(subscribe))
        self._asked = False
        while True:
            self._heard = False
            done, _ = await asyncio.wait([over], timeout=QUIET)
            if done:
                over.result()
            if not self._heard:
                if self._asked:
                    raise TimeoutError(f"no word within {2 * QUIET:g} s")
                wire.transport.write(pack_command(("PING",)))
            self._asked = not self._heard

    def _on_message(self, reply: list[Any]) -> None:
        if reply[0] == b"message":
            self._tell(reply[2])
        elif reply[0] == b"subscribe":
            if self._before:
                for listener in list(self.listeners.values()):
                    listener.on_wake()  # whatever was said meanwhile was missed
            self._before = True
            self._subscribed.set()

    def find(self, address: str | None) -> Listener | None:
        """Return the listener with an address of this ear."""
        channel, _, number = (address or "").rpartition("#")
        return self.listeners.get(int(number)) if channel == self.channel and number.isdigit() else None

    def _tell(self, message: bytes) -> None:
        """A message is the number of a listener, a mark, and what it is told: nothing (wake up), news or a gift."""
        found = _MESSAGE(message)
        listener = self.listeners.get(int(found[1])) if found else None
        if found is None or listener is None:
            return
        if found[2] == b"=":
            for finished in watched_words(message[found.end() :]):
                listener.on_finished(finished)
            return
        if found[2] == b"!" and listener.gifts is not None:
            listener.gifts.hear(message[found.end() :])
        listener.on_wake()

    async def close(self) -> None:
        """Nothing is heard any more."""
        self.listeners.clear()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self._subscribed.clear()
