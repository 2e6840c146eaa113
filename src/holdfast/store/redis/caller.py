"""Calls of entry points in one namespace: with the time, the keys of the queue, and replies by name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from ...core.transition import Reply
from .arguments.entry import ServerCall
from .arguments.work import SetAsideCall
from .connection.library import function
from .connection.server import Server
from .keys import Keys

R = TypeVar("R")
AT_ONCE = 64
"""How many calls of a session with many queues are on their way at once."""


def rid(run: int) -> bytes:
    """Return a run as keys and members spell it."""
    return run.to_bytes(6, "big")


class RedisCaller:
    """What every part of the store asks the server through."""

    def __init__(self, server: Server, keys: Keys, clock: Callable[[], int] | None) -> None:
        self.server = server
        self.keys = keys
        self.clock = clock
        self.known: set[str] = set()
        """Queues that are in the list of queues."""

    def now(self) -> str:
        """Return the time for a call: the server's own, unless a test has another."""
        return "" if self.clock is None else str(self.clock())

    async def now_ms(self) -> int:
        """Return the time, as the store has it."""
        if self.clock is not None:
            return self.clock()
        seconds, micros = await self.server.ask(["TIME"], None)
        return int(seconds) * 1000 + int(micros) // 1000

    def call(
        self,
        queue: str,
        entry: ServerCall[R],
        more: Sequence[object] = (),
        *,
        repeat: bool = True,
        notifies: bool = False,
        polls: bool = False,
    ) -> Coroutine[Any, Any, R]:
        """Return what an entry point answers for a queue; `more` are the groups that follow its arguments."""
        return self.call_at([self.keys.declared(queue)], entry, more, repeat=repeat, notifies=notifies, polls=polls)

    async def call_at(
        self,
        keys: Sequence[str],
        entry: ServerCall[R],
        more: Sequence[object] = (),
        *,
        repeat: bool = True,
        notifies: bool = False,
        polls: bool = False,
    ) -> R:
        """The same for given keys, which share a slot where there is a cluster."""
        command = ("FCALL", function(type(entry)), len(keys), *keys, *entry.packed(self.now()), *more)
        reply = await self.server.ask(command, keys[0], repeat=repeat, notifies=notifies, polls=polls)
        return entry.answer(reply)

    async def read(self, queue: str, entry: ServerCall[R], more: Sequence[object] = ()) -> R:
        """The same for an entry point that changes nothing."""
        key = self.keys.declared(queue)
        command = ("FCALL_RO", function(type(entry)), 1, key, *entry.packed(self.now()), *more)
        return entry.answer(await self.server.ask(command, key))

    async def word(self, queue: str, entry: ServerCall[bytes]) -> Reply:
        """The same for one that answers with a word of the contract."""
        return Reply((await self.call(queue, entry)).decode())

    async def at_once(self, calls: Sequence[Coroutine[Any, Any, R]]) -> list[R]:
        """Return what calls answer that share packets; raise the first error once all of them are over."""
        found: list[R | BaseException] = []
        for first in range(0, len(calls), AT_ONCE):
            found += await asyncio.gather(*calls[first : first + AT_ONCE], return_exceptions=True)
        for each in found:
            if isinstance(each, BaseException):
                raise each
        return [each for each in found if not isinstance(each, BaseException)]

    async def know(self, *queues: str) -> None:
        """Put queues into the list of queues. Those that are there need no memory, of which there may be none left."""
        new = [name for name in queues if name not in self.known]
        if new:
            key = self.keys.of_store("queues")
            found = await self.server.ask(["SMISMEMBER", key, *new], key)
            if lacking := [name for name, there in zip(new, found, strict=True) if not there]:
                await self.server.ask(["SADD", key, *lacking], key)
            self.known.update(new)

    async def names(self) -> list[str]:
        """Return every queue."""
        key = self.keys.of_store("queues")
        return sorted(name.decode() for name in await self.server.ask(["SMEMBERS", key], key))

    async def set_aside(self, queue: str, runs: Sequence[int]) -> None:
        """Make dead letters of runs whose records cannot be read here; a worker will report them."""
        await self.call(queue, SetAsideCall(queue=queue), [rid(run) for run in runs])
