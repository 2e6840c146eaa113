"""One server, a cluster, or the master that sentinels name: commands go to the right node, and are repeated if safe."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import MovedError

from ....errors import ConfigError, StoreClosed, StoreError
from ...other_loop import done_in
from .address import RedisAddress
from .link import Command, Lost, RedisLink, Unsent
from .loader import FIRST_PAUSE, LONGEST_PAUSE, Loader
from .nodes import Nodes
from .trouble import translated, trouble

T = TypeVar("T")
FULL_FOR = 1.0
"""How long a call is repeated, in seconds, when the server's memory is full."""
OLDEST = (7, 0)
OLDEST_WITH_WAITAOF = (7, 2)


WrongType = Callable[[Sequence[Command], bool], Awaitable[bool]]


async def _raise_it(commands: Sequence[Command], repeat: bool) -> bool:
    return False


class Server:
    """Sends every command of a store."""

    def __init__(self, address: RedisAddress) -> None:
        self.address = address
        self.nodes = Nodes(address)
        self.loader = Loader(address, self.nodes)
        self._open = False
        self._only: RedisLink | None = None
        """The link to the one server; none in a cluster."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self.on_wrong_type: WrongType = _raise_it
        """Called with commands that met a key of another type than ours: says whether they may be sent again."""

    @property
    def here(self) -> bool:
        """True in the event loop in which it was opened; a handler's thread has its own."""
        return self._loop is None or self._loop is asyncio.get_running_loop()

    async def at_home(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what the work returns, done in the event loop in which the server was opened."""
        assert self._loop is not None
        return await done_in(self._loop, work)

    async def open(self) -> None:
        """Check that the server is there and new enough, and load our functions."""
        self.address.check_files()
        self._open = True
        self._only = None if self.address.kind == "cluster" else self.nodes.first
        self._loop = asyncio.get_running_loop()
        info = await self.ask(["INFO", "server"], None)
        text = info.decode("utf-8", "replace") if isinstance(info, bytes) else str(info)
        lines = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        self._check_version(lines.get("redis_version", "0.0"))
        self._refuse_other_kind(lines.get("server_mode") or lines.get("redis_mode", ""))
        await self.loader.load_everywhere()

    def _check_version(self, version: str) -> None:
        number = tuple(int(part) for part in version.split(".")[:2])
        if number < OLDEST:
            raise StoreError(f"{self.address} is Redis {version}; Holdfast needs Redis 7.0, Valkey 7.2 or newer")
        if self.address.wait_aof and number < OLDEST_WITH_WAITAOF:
            raise ConfigError(
                f"{self.address} is Redis {version}: wait_aof=1 needs 7.2; wait_replicas works with this one"
            )

    def _refuse_other_kind(self, mode: str) -> None:
        """Raise when the one server that the address names is part of something larger."""
        what = {"cluster": "a node of a cluster", "sentinel": "a sentinel"}.get(mode)
        if self.address.kind == "single" and what is not None:
            raise ConfigError(f"{self.address} is {what}: write redis+{mode}:// in the URL")

    async def close(self) -> None:
        """Close every connection."""
        self._open = False
        await self.nodes.close()

    @property
    def connections(self) -> int:
        """How often anything was connected."""
        return self.nodes.connections

    async def connection(self) -> AbstractConnection:
        """Return a connection of its own, to a node of the caller's liking."""
        return await self.nodes.connection()

    async def ask(
        self, command: Command, key: str | None, *, repeat: bool = True, notifies: bool = False, polls: bool = False
    ) -> Any:
        """Return what a command answers, at the node that has the key.

        `repeat` says that it may be sent again after a lost reply; `notifies`, that it may publish a message; `polls`,
        that the reply is polled for where nothing else is to be done.
        """
        link = self._only
        if link is None or not self._open or not self.here:
            return (await self.ask_all([command], key, repeat=repeat))[0]
        problem: Exception
        try:
            reply = await link.ask(command, notifies=notifies, polls=polls)
            if not isinstance(reply, Exception):
                return reply
            problem = reply
        except (Unsent, Lost) as error:
            problem = error
        return (await self._try([command], key, repeat, (problem, link)))[0]

    async def ask_all(self, commands: Sequence[Command], key: str | None, *, repeat: bool = True) -> list[Any]:
        """The same for several commands, in one packet; when one of them must be repeated, all are."""
        if not self._open:
            raise StoreClosed(f"{self.address} is closed; open the app first (async with app: ...)")
        if self._loop is not None and not self.here:
            return await self.at_home(self.ask_all(commands, key, repeat=repeat))
        return await self._try(commands, key, repeat)

    async def ask_everywhere(self, command: Command) -> list[Any]:
        """Return what every primary answers."""
        try:
            replies = [(await link.send([command]))[0] for link in await self.nodes.all()]
        except (Unsent, Lost) as error:
            raise translated(self.address, error) from error
        for reply in replies:
            if isinstance(reply, Exception):
                raise translated(self.address, reply) from reply
        return replies

    async def _try(
        self,
        commands: Sequence[Command],
        key: str | None,
        repeat: bool,
        failed: tuple[Exception, RedisLink] | None = None,
    ) -> list[Any]:
        """Return the replies, after as many tries as it takes; `failed` is how the first try ended."""
        began = time.monotonic()
        deadline, pause = began + self.address.retry_for, FIRST_PAUSE
        while True:
            try:
                if failed is None:
                    link = await self.nodes.having(key)
                    replies = await link.send(commands)
                    bad = next((reply for reply in replies if isinstance(reply, Exception)), None)
                    if bad is None:
                        return replies
                    failed = bad, link
                problem, link = failed
                failed = None
                if isinstance(problem, Unsent | Lost):
                    raise problem
                if "WRONGTYPE" in str(problem) and await self.on_wrong_type(commands, repeat):
                    continue
                safe = len(commands) == 1 or repeat
                if await self._recover(problem, link, safe, began) and time.monotonic() < deadline:
                    continue
            except Unsent as error:
                problem = error
                self.nodes.forget_slots()
            except Lost as error:
                problem = error
                if not repeat:
                    raise StoreError(
                        f"{self.address}: the connection broke before the reply came ({error}); "
                        "whether it was done, the next call will tell"
                    ) from error
            if time.monotonic() + pause > deadline or not self._open:
                raise translated(self.address, problem) from problem
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _recover(self, error: Exception, link: RedisLink, safe: bool, began: float) -> bool:
        """Return whether to repeat at once, after an error that says that nothing was done; else after a pause."""
        kind = trouble(error)
        if kind == "no library" and safe:
            await self.loader.load(link)
            return True
        if isinstance(error, MovedError):
            self.nodes.move_slot(error)
            return True
        if kind == "read only":
            link.drop()
            self.nodes.forget_slots()
            return False
        full = kind == "full" and time.monotonic() - began <= min(FULL_FOR, self.address.retry_for)
        if kind == "half moved" or full or (kind == "temporary" and safe):
            return False
        raise translated(self.address, error) from error
