"""Wake-ups by LISTEN: one connection receives for every listener of a store, and is made anew when it is lost.

A wake-up is a hint. One that is lost costs a poll.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import msgspec
import psycopg

from ...core.job import run_number
from ...core.state import State
from ...errors import StoreClosed, StoreError
from ..contract import Finished, Listener
from .call.array import texts
from .connection.caller import PostgresCaller
from .connection.connect import Connection, connect, connect_patiently
from .connection.errors import translate
from .url import PostgresAddress

log = logging.getLogger("holdfast")
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 5.0
_decode = msgspec.json.Decoder(list[tuple[str, str, int, State]]).decode


class PostgresListener:
    """Receives wake-ups and ends of runs, in the event loop in which it was made."""

    def __init__(
        self,
        address: str,
        on_wake: Callable[[], None],
        on_finished: Callable[[Finished], None],
        closed: Callable[[PostgresListener], None],
    ) -> None:
        self.address = address
        self._on_wake = on_wake
        self._on_finished = on_finished
        self._closed = closed

    def wake(self) -> None:
        """Tell the worker to look for work."""
        self._on_wake()

    def hear(self, message: str) -> None:
        """Pass a message on; drop one that cannot be read."""
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
        """Receive nothing more."""
        self._closed(self)


class ListenConnection:
    """The listening connection of a store, and its listeners."""

    def __init__(self, address: PostgresAddress) -> None:
        self._address = address
        self._channel = f"hf_{secrets.token_hex(8)}"
        self._numbers = itertools.count(1)
        self._listeners: dict[str, PostgresListener] = {}
        self._wire: Connection | None = None
        self._task: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._closed = False

    async def listen(self, on_wake: Callable[[], None], on_finished: Callable[[Finished], None]) -> PostgresListener:
        """Return a new listener, which receives already."""
        number = str(next(self._numbers))
        address = f"{self._channel}:{number}" if self._address.listen else ""
        listener = PostgresListener(address, on_wake, on_finished, lambda _: self._forget(number))
        self._listeners[number] = listener
        async with self._starting:
            if self._address.listen and self._task is None:
                self._wire = await connect_patiently(self._address.patience, self._connect)
                if self._closed:
                    await self._hang_up()
                    raise StoreClosed(f"{self._address} was closed while it began to listen")
                self._task = asyncio.create_task(self._run())
        return listener

    def _forget(self, number: str) -> None:
        self._listeners.pop(number, None)

    def find(self, address: str | None) -> PostgresListener | None:
        """Return the listener with this address, if it is one of ours."""
        channel, _, number = (address or "").partition(":")
        return self._listeners.get(number) if channel == self._channel else None

    async def _connect(self) -> Connection:
        connection = await connect(self._address)
        try:
            await connection.execute(f'LISTEN "{self._channel}"')
        except psycopg.Error as error:
            await connection.close()
            raise translate(error, self._address) from error
        except BaseException:
            await connection.close()
            raise
        return connection

    async def _hang_up(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            with suppress(psycopg.Error):
                await wire.close()

    async def _run(self) -> None:
        while self._wire is not None:
            try:
                async for notice in self._wire.notifies():
                    self._pass_on(notice.payload)
            except psycopg.Error as error:
                log.warning("listener_away: wake-ups are late until %s is back: %s", self._address, error)
            away_since = time.monotonic()
            await self._hang_up()
            self._wire = await self._connect_again()
            away = time.monotonic() - away_since
            log.warning("listener_back: wake-ups of %s arrive again after %.1f s", self._address, away)
            for listener in list(self._listeners.values()):
                listener.wake()  # a message may have been lost meanwhile

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
        if listener := self._listeners.get(number):
            listener.hear(message)

    async def close(self) -> None:
        """End every listener, and the connection."""
        self._closed = True
        self._listeners.clear()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await self._hang_up()  # a task that was cancelled before it began has ended nothing


class ParkedRecheck:
    """Looks again for a worker that has just parked: what was committed at that moment did not wake it."""

    PAUSES = (0.02, 0.25)

    def __init__(self, claimable: Callable[[str, Sequence[str], str], Awaitable[bool]]) -> None:
        self._claimable = claimable
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def stop(self, session: str) -> None:
        """Look no more for a worker that is awake."""
        if task := self._tasks.pop(session, None):
            task.cancel()

    def start(self, session: str, queues: Sequence[str], listener: PostgresListener, before: str) -> None:
        """Look for a worker that parked after it asked these queues, when the transaction `before` had not begun."""
        self.stop(session)
        self._tasks[session] = asyncio.create_task(self._look(session, queues, listener, before))

    async def _look(self, session: str, queues: Sequence[str], listener: PostgresListener, before: str) -> None:
        for pause in self.PAUSES:
            await asyncio.sleep(pause)
            try:
                if await self._claimable(session, queues, before):
                    listener.wake()
                    return
            except StoreError:
                return  # the poll finds it

    async def close(self) -> None:
        """Look no more for any worker."""
        tasks, self._tasks = list(self._tasks.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class PostgresListen:
    """Listening, of the contract: wake-ups for workers, and the ends of runs that are watched."""

    def __init__(self, caller: PostgresCaller) -> None:
        self._caller = caller
        self._wire: ListenConnection | None = None
        self.recheck = ParkedRecheck(self._is_claimable)
        caller.close_first(self._close)

    async def listen(self, on_wake: Callable[[], None], on_finished: Callable[[Finished], None]) -> PostgresListener:
        """Return a listener whose callbacks run in this event loop."""
        if self._wire is None:
            self._wire = ListenConnection(self._caller.address)
        return await self._wire.listen(on_wake, on_finished)

    async def watch(self, listener: Listener, queue: str, id: str, run: int) -> bool:
        """Let the listener hear when the run ends; return whether it is still to end."""
        found = await self._caller.value("watch", queue=queue, id=id, run=run_number(run), address=listener.address)
        return bool(found)

    async def unwatch(self, listener: Listener, queue: str, id: str, run: int) -> None:
        """Let the listener hear nothing of the run any more."""
        statement = self._caller.named("DELETE FROM holdfast.watch WHERE run = %s::bigint AND address = %s")
        await self._caller.rows(statement, (run, listener.address))

    def find(self, address: str | None) -> PostgresListener | None:
        """Return the listener with this address, if it is one of this store object."""
        return self._wire.find(address) if self._wire is not None else None

    async def _is_claimable(self, session: str, queues: Sequence[str], before: str) -> bool:
        """Ask whether a parked worker would find something."""
        (row,) = await self._caller.call("claimable", session=session, queues=texts(queues), before=before)
        return bool(row["found"])

    async def _close(self) -> None:
        await self.recheck.close()
        wire, self._wire = self._wire, None
        if wire is not None:
            await wire.close()
