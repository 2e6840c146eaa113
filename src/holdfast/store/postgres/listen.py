"""Wake-ups by LISTEN: one connection hears for every listener of a store, and is rebuilt when it drops.

A wake-up is a hint. One that is lost costs a poll.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import msgspec
import psycopg

from ...core.state import State
from ...errors import StoreClosed, StoreError
from ..contract import Finished
from .connection import Connection, Place, connect, patiently, translate

log = logging.getLogger("holdfast")
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 5.0
_decode = msgspec.json.Decoder(list[tuple[str, str, int, State]]).decode


class Ear:
    """Hears wake-ups and endings, in the event loop in which it was made."""

    def __init__(
        self,
        address: str,
        on_wake: Callable[[], None],
        on_finished: Callable[[Finished], None],
        closed: Callable[[Ear], None],
    ) -> None:
        self.address = address
        self._on_wake = on_wake
        self._on_finished = on_finished
        self._closed = closed

    def wake(self) -> None:
        """Somebody should look for work."""
        self._on_wake()

    def hear(self, message: str) -> None:
        """The message is passed on; one that cannot be read is nobody's."""
        if not message:
            self._on_wake()
            return
        try:
            endings = _decode(message)
        except msgspec.MsgspecError:
            return
        for ending in endings:
            self._on_finished(Finished(*ending))

    def close(self) -> None:
        """Hear nothing more."""
        self._closed(self)


class Switchboard:
    """The listening connection of a store, and who hears through it."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._channel = f"hf_{secrets.token_hex(8)}"
        self._numbers = itertools.count(1)
        self._ears: dict[str, Ear] = {}
        self._line: Connection | None = None
        self._task: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._closed = False

    async def listen(self, on_wake: Callable[[], None], on_finished: Callable[[Finished], None]) -> Ear:
        """Return a new listener, which hears already."""
        number = str(next(self._numbers))
        address = f"{self._channel}:{number}" if self._place.listen else ""
        ear = Ear(address, on_wake, on_finished, lambda _: self._forget(number))
        self._ears[number] = ear
        async with self._starting:
            if self._place.listen and self._task is None:
                self._line = await patiently(self._place.patience, self._connect)
                if self._closed:
                    await self._hang_up()
                    raise StoreClosed(f"{self._place} was closed while it began to listen")
                self._task = asyncio.create_task(self._run())
        return ear

    def _forget(self, number: str) -> None:
        self._ears.pop(number, None)

    def find(self, address: str | None) -> Ear | None:
        """Return the listener with this address, if it is one of ours."""
        channel, _, number = (address or "").partition(":")
        return self._ears.get(number) if channel == self._channel else None

    async def _connect(self) -> Connection:
        connection = await connect(self._place)
        try:
            await connection.execute(f'LISTEN "{self._channel}"')
        except psycopg.Error as error:
            await connection.close()
            raise translate(error, self._place) from error
        except BaseException:
            await connection.close()
            raise
        return connection

    async def _hang_up(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            with suppress(psycopg.Error):
                await line.close()

    async def _run(self) -> None:
        while self._line is not None:
            try:
                async for notice in self._line.notifies():
                    self._pass_on(notice.payload)
            except psycopg.Error as error:
                log.warning("%s: wake-ups are lost until the server is back, polling goes on: %s", self._place, error)
            await self._hang_up()
            self._line = await self._connect_again()
            for ear in list(self._ears.values()):
                ear.wake()  # something may have been said while nobody heard

    async def _connect_again(self) -> Connection:
        pause = FIRST_PAUSE
        while True:
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, LONGEST_PAUSE)
            try:
                return await self._connect()
            except StoreError:
                continue

    def _pass_on(self, payload: str) -> None:
        number, _, message = payload.partition(":")
        if ear := self._ears.get(number):
            ear.hear(message)

    async def close(self) -> None:
        """Nobody hears anything more."""
        self._closed = True
        self._ears.clear()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await self._hang_up()  # a task that was cancelled before it began has ended nothing


class Doubt:
    """A worker looks again shortly after it parked: what was committed meanwhile woke nobody."""

    PAUSES = (0.02, 0.25)

    def __init__(self, claimable: Callable[[str, Sequence[str], str], Awaitable[bool]]) -> None:
        self._claimable = claimable
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def settle(self, session: str) -> None:
        """The worker is awake: there is nothing to doubt."""
        if task := self._tasks.pop(session, None):
            task.cancel()

    def raise_(self, session: str, queues: Sequence[str], ear: Ear, before: str) -> None:
        """The worker had parked, after it asked these queues, when the transaction `before` had not yet begun."""
        self.settle(session)
        self._tasks[session] = asyncio.create_task(self._look(session, queues, ear, before))

    async def _look(self, session: str, queues: Sequence[str], ear: Ear, before: str) -> None:
        for pause in self.PAUSES:
            await asyncio.sleep(pause)
            try:
                if await self._claimable(session, queues, before):
                    ear.wake()
                    return
            except StoreError:
                return  # the poll finds it

    async def close(self) -> None:
        """Nobody looks any more."""
        tasks, self._tasks = list(self._tasks.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
