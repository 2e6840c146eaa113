"""Wake-ups: one subscription for all parked workers and all waiting callers of a process.

A wake-up is a hint. One that is lost costs a poll; after a reconnect every listener looks once.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import re
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from hiredis import pack_command
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError

from ...core.job import run_number
from ...errors import HoldfastError, StoreError
from ..contract import Finished, Listener
from .arguments.entry import Flat
from .arguments.inspect import UnwatchCall, WatchCall
from .caller import RedisCaller
from .connection.link import Unsent
from .connection.wire import RedisWire
from .handover import HandOver
from .keys import long, short
from .record.job import STATES
from .visits import Visits

log = logging.getLogger("holdfast")
QUIET = 15.0
"""After so many silent seconds the connection is tried."""
LONGEST_PAUSE = 2.0


_NEWS = struct.Struct(">cHIHI")
_NEWS_SIZE = _NEWS.size
_MESSAGE = re.compile(rb"(\d+)([=!@]?)").match


def finished_in(text: bytes) -> Iterator[Finished]:
    """Yield what a message says of watched runs of one queue; `news` in lua/lib/watchers.lua writes it."""
    at, end, unpack = 2 + int.from_bytes(text[:2], "big"), len(text), _NEWS.unpack_from
    queue = text[2:at].decode()
    while at < end:
        letter, run, low, id_size, result_size = unpack(text, at)
        id_at = at + _NEWS_SIZE
        at = result_at = id_at + id_size
        if result_size:
            at += result_size - 1
        result = text[result_at:at] if result_size else None
        yield Finished(queue, long(text[id_at:result_at]), run << 32 | low, STATES[letter], result)


class Subscription:
    """One parked worker or waiting caller of a listener."""

    def __init__(
        self, listener: RedisListener, number: int, on_wake: Callable[[], None], on_finished: Callable[[Finished], None]
    ) -> None:
        self._listener = listener
        self._number = number
        self.address = f"{listener.channel}#{number}"
        self.on_wake = on_wake
        self.on_finished = on_finished
        self.handed_over: HandOver | None = None
        """What is handed over to the session that listens here."""
        self.visits: Visits | None = None
        """What is known of the queues of the session that listens here, if there are many."""

    def close(self) -> None:
        """Hear nothing more."""
        self._listener.subscriptions.pop(self._number, None)


class RedisListener:
    """A connection that stays subscribed to the channel of this process."""

    def __init__(self, caller: RedisCaller) -> None:
        self._caller = caller
        self._server = caller.server
        self.channel = caller.keys.channel(os.urandom(8).hex())
        self.subscriptions: dict[int, Subscription] = {}
        self._numbers = itertools.count(1)
        self._task: asyncio.Task[None] | None = None
        self._subscribed = asyncio.Event()
        self._before = False
        self._away_since = 0.0
        self._heard = self._asked = False
        """Whether anything was heard lately; and whether the connection was tried because it was not."""

    async def listen(self, on_wake: Callable[[], None], on_finished: Callable[[Finished], None]) -> Subscription:
        """Return a listener that hears from now on."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._keep_up())
        number = next(self._numbers)
        subscription = self.subscriptions[number] = Subscription(self, number, on_wake, on_finished)
        try:
            async with asyncio.timeout(self._server.address.retry_for + 1):
                await self._subscribed.wait()
        except TimeoutError:
            subscription.close()
            raise StoreError(f"{self._server.address} cannot be subscribed to; check that it runs") from None
        return subscription

    async def watch(self, listener: Listener, queue: str, id: str, run: int) -> bool:
        """Hear when a run is over; false when it is over already."""
        call = WatchCall(id=short(id), run=run_number(run), address=listener.address)
        return await self._caller.call(queue, call) == b"ok"

    async def unwatch(self, listener: Listener, queue: str, id: str, run: int) -> None:
        """Hear of a run no longer."""
        await self._caller.call(queue, UnwatchCall(id=short(id), run=run, address=listener.address))

    async def _keep_up(self) -> None:
        pause = 0.02
        while True:
            try:
                connection = await self._server.connection()
                try:
                    await self._listen_on(connection)
                finally:
                    await connection.disconnect()
            except (Unsent, RedisError, OSError, TimeoutError, HoldfastError) as error:
                if self._subscribed.is_set():
                    log.warning("listener_away: wake-ups are late until %s is back: %s", self._server.address, error)
                    pause, self._away_since = 0.02, time.monotonic()
                self._subscribed.clear()
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _listen_on(self, connection: AbstractConnection) -> None:
        """Hand messages on until the connection ends, which raises."""
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def end(reason: str) -> None:
            if not over.done():
                over.set_exception(OSError(reason))
                over.exception()  # while the listener is being closed, this is not looked at

        def hear(reply: Any) -> None:
            self._heard = True
            if isinstance(reply, list):
                self._on_message(reply)
            elif isinstance(reply, Exception):
                end(str(reply))

        wire = RedisWire(connection, hear, end)
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

    def _on_message(self, reply: Flat) -> None:
        if reply[0] == b"message":
            self._hand_on(reply[2])
        elif reply[0] == b"subscribe":
            if self._before:
                away = time.monotonic() - self._away_since
                log.warning("listener_back: wake-ups of %s arrive again after %.1f s", self._server.address, away)
                for subscription in list(self.subscriptions.values()):
                    if subscription.visits is not None:
                        subscription.visits.ring(None)
                    subscription.on_wake()  # what was published meanwhile was missed
            self._before = True
            self._subscribed.set()

    def find(self, address: str | None) -> Subscription | None:
        """Return the subscription with an address of this listener."""
        channel, _, number = (address or "").rpartition("#")
        return self.subscriptions.get(int(number)) if channel == self.channel and number.isdigit() else None

    def _hand_on(self, message: bytes) -> None:
        """Hand a message on: the number of a subscription, a mark, and a queue (wake up), news or a hand-over."""
        found = _MESSAGE(message)
        subscription = self.subscriptions.get(int(found[1])) if found else None
        if found is None or subscription is None:
            return
        if found[2] == b"=":
            for finished in finished_in(message[found.end() :]):
                subscription.on_finished(finished)
            return
        if found[2] == b"!" and subscription.handed_over is not None:
            subscription.handed_over.receive(message[found.end() :])
        elif subscription.visits is not None:
            subscription.visits.ring(message[found.end() :].decode() or None)
        subscription.on_wake()

    async def close(self) -> None:
        """Stop listening."""
        self.subscriptions.clear()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self._subscribed.clear()
