"""The server, the cluster, or whatever sentinels point to: calls go to the right node, and are repeated where safe."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from redis.asyncio.connection import AbstractConnection
from redis.crc import key_slot
from redis.exceptions import (
    AskError,
    AuthenticationError,
    AuthorizationError,
    MovedError,
    NoPermissionError,
    ReadOnlyError,
    RedisError,
)

from ...errors import ConfigError, StoreBusy, StoreClosed, StoreError, StoreFull, StoreReadOnly, StoreTooNew
from . import library
from .link import Command, Link, Lost, Unsent, connect
from .place import Place

T = TypeVar("T")
FIRST_PAUSE = 0.02
LONGEST_PAUSE = 0.5
FULL_FOR = 1.0
"""How long a call is repeated when the server's memory is full."""
SLOTS = 16384
OLDEST = (7, 0)
OLDEST_WITH_WAITAOF = (7, 2)


class Server:
    """Everything that is asked goes through here."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._links: dict[tuple[str, int], Link] = {}
        self._slots: list[tuple[str, int]] = []
        self._loading = asyncio.Lock()
        self._open = False
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def here(self) -> bool:
        """True in the event loop in which it was opened; a handler's thread has its own."""
        return self._loop is None or self._loop is asyncio.get_running_loop()

    async def at_home(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what the work returns, done in the event loop in which the server was opened."""
        assert self._loop is not None
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def open(self) -> None:
        """The server is there, new enough, and has our functions."""
        self.place.check_files()
        self._open = True
        self._loop = asyncio.get_running_loop()
        info = await self.ask(["INFO", "server"], None)
        text = info.decode("utf-8", "replace") if isinstance(info, bytes) else str(info)
        lines = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        version = lines.get("redis_version", "0.0")
        number = tuple(int(part) for part in version.split(".")[:2])
        if number < OLDEST:
            raise StoreError(f"{self.place} is Redis {version}; Holdfast needs Redis 7.0, Valkey 7.2 or newer")
        if self.place.wait_aof and number < OLDEST_WITH_WAITAOF:
            raise ConfigError(
                f"{self.place} is Redis {version}: wait_aof=1 needs 7.2; wait_replicas works with this one"
            )
        self._refuse_other_kind(lines.get("server_mode") or lines.get("redis_mode", ""))
        await self._ensure_libraries()

    def _refuse_other_kind(self, mode: str) -> None:
        """Raise when the one server that the place names is part of something larger."""
        what = {"cluster": "a node of a cluster", "sentinel": "a sentinel"}.get(mode)
        if self.place.kind == "single" and what is not None:
            raise ConfigError(f"{self.place} is {what}: write redis+{mode}:// in the URL")

    async def close(self) -> None:
        """Nothing is held open."""
        self._open = False
        links, self._links, self._slots = list(self._links.values()), {}, []
        for link in links:
            await link.close()

    # --- which node

    async def _all(self) -> list[Link]:
        """Return a link to every primary."""
        if self.place.kind != "cluster":
            return [self._link(self.place.hosts[0])]
        if not self._slots:
            await self._learn_slots()
        return [self._link(address) for address in sorted(set(self._slots))]

    @property
    def connections(self) -> int:
        """How often anything was connected: with every new connection there may be another server, that knows less."""
        return sum(link.made for link in self._links.values())

    def _link(self, address: tuple[str, int]) -> Link:
        link = self._links.get(address)
        if link is None:

            async def make() -> AbstractConnection:
                host, port = await self._master() if self.place.kind == "sentinel" else address
                return await connect(self.place, host, port)

            link = self._links[address] = Link(make, self.place.timeout)
        return link

    async def _master(self) -> tuple[str, int]:
        """Return where the sentinels say that the master is."""
        problem = "no sentinel was asked"
        for host, port in self.place.hosts:
            try:
                found = await self._ask_sentinel(host, port)
            except (Unsent, RedisError, OSError) as error:
                problem = str(error)
                continue
            if isinstance(found, list):
                return found[0].decode(), int(found[1])
            problem = f"the sentinel at {host}:{port} knows no master named {self.place.master!r}"
        raise Unsent(problem)

    async def _ask_sentinel(self, host: str, port: int) -> Any:
        connection = await connect(self.place.of_sentinel(host, port), host, port)
        try:
            async with asyncio.timeout(self.place.timeout):
                await connection.send_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.place.master)
                return await connection.read_response(disable_decoding=True)
        finally:
            await connection.disconnect()

    async def _to(self, key: str | None) -> Link:
        if self.place.kind != "cluster":
            return self._link(self.place.hosts[0])
        if not self._slots:
            await self._learn_slots()
        slot = random.randrange(SLOTS) if key is None else key_slot(key.encode())
        return self._link(self._slots[slot])

    def known(self, key: str) -> Link | None:
        """Return the link to the node that has a key, where it is known which has."""
        if self.place.kind != "cluster":
            return self._link(self.place.hosts[0])
        return self._link(self._slots[key_slot(key.encode())]) if self._slots else None

    async def _learn_slots(self) -> None:
        problem = "no node was asked"
        for address in [*self._links, *self.place.hosts]:
            try:
                (found,) = await self._link(address).send([["CLUSTER", "SLOTS"]])
            except (Unsent, Lost) as error:
                problem = str(error)
                continue
            if isinstance(found, Exception):
                if "cluster support disabled" in str(found):
                    raise ConfigError(f"{self.place} is no cluster ({found}): use redis:// without +cluster")
                problem = str(found)
                continue
            slots: list[tuple[str, int] | None] = [None] * SLOTS
            for first, last, primary, *_ in found:
                host = (primary[0] or b"").decode() or address[0]  # a node that is not told its own address
                slots[first : last + 1] = [(host, int(primary[1]))] * (last + 1 - first)
            if None not in slots:
                self._slots = slots  # type: ignore[assignment]
                return
            problem = f"{address[0]}:{address[1]} knows no node for some slots"
        raise Unsent(problem)

    async def connection(self) -> AbstractConnection:
        """Return a connection of its own, to a node of the caller's liking."""
        link = await self._to(None)
        return await link._make()

    # --- asking

    def call(
        self, name: str, keys: Sequence[str], *args: Any, repeat: bool = True, tells: bool = False
    ) -> Coroutine[Any, Any, Any]:
        """Return what a function answers.

        `repeat` says that it may be called again after a lost reply; `tells`, that it may bring somebody a message.
        """
        command = ("FCALL", library.function(name), len(keys), *keys, *args)
        return self.ask(command, keys[0], repeat=repeat, tells=tells)

    def look(self, name: str, keys: Sequence[str], *args: Any) -> Coroutine[Any, Any, Any]:
        """The same for a function that changes nothing."""
        return self.ask(("FCALL_RO", library.function(name), len(keys), *keys, *args), keys[0])

    async def ask(self, command: Command, key: str | None, *, repeat: bool = True, tells: bool = False) -> Any:
        """Return what a command answers, at the node that has the key."""
        if self.place.kind == "cluster" or not self._open or not self.here:
            return (await self.ask_all([command], key, repeat=repeat))[0]
        link = self._link(self.place.hosts[0])
        problem: Exception
        try:
            reply = await link.ask(command, tells=tells)
            if not isinstance(reply, Exception):
                return reply
            problem = reply
        except (Unsent, Lost) as error:
            problem = error
        return (await self._insist([command], key, repeat, (problem, link)))[0]

    async def ask_all(self, commands: Sequence[Command], key: str | None, *, repeat: bool = True) -> list[Any]:
        """The same for several commands, in one packet; when one of them must be repeated, all are."""
        if not self._open:
            raise StoreClosed(f"{self.place} is closed; open the app first (async with app: ...)")
        if self._loop is not None and not self.here:
            return await self.at_home(self.ask_all(commands, key, repeat=repeat))
        return await self._insist(commands, key, repeat)

    async def ask_everywhere(self, command: Command) -> list[Any]:
        """Return what every primary answers."""
        try:
            replies = [(await link.send([command]))[0] for link in await self._all()]
        except (Unsent, Lost) as error:
            raise self._translated(error) from error
        for reply in replies:
            if isinstance(reply, Exception):
                raise self._translated(reply) from reply
        return replies

    async def _insist(
        self,
        commands: Sequence[Command],
        key: str | None,
        repeat: bool,
        failed: tuple[Exception, Link] | None = None,
    ) -> list[Any]:
        """Return the replies, however often it must be tried; `failed` is how the first try ended."""
        began = time.monotonic()
        deadline, pause = began + self.place.retry_for, FIRST_PAUSE
        while True:
            try:
                if failed is None:
                    link = await self._to(key)
                    replies = await link.send(commands)
                    bad = next((reply for reply in replies if isinstance(reply, Exception)), None)
                    if bad is None:
                        return replies
                    failed = bad, link
                problem, link = failed
                failed = None
                if isinstance(problem, Unsent | Lost):
                    raise problem
                if await self._mend(problem, link, len(commands) == 1 or repeat, began) and time.monotonic() < deadline:
                    continue
            except Unsent as error:
                problem = error
                self._slots = []
            except Lost as error:
                problem = error
                if not repeat:
                    raise StoreError(
                        f"{self.place}: the connection broke before the reply came ({error}); "
                        "whether it was done, the next call will tell"
                    ) from error
            if time.monotonic() + pause > deadline or not self._open:
                raise self._translated(problem) from problem
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _mend(self, error: Exception, link: Link, safe: bool, began: float) -> bool:
        """Return whether to go on at once, after an error that says that nothing was done; else wait, or raise."""
        text = str(error)
        if "unction not found" in text and safe:
            await self._ensure_library(link)
            return True
        if isinstance(error, MovedError):
            if self._slots:  # or else another call has found out already, and they are learnt anew
                self._slots[error.slot_id] = (error.host or self.place.hosts[0][0], error.port)
            return True
        if isinstance(error, AskError):
            return False  # half of the queue is elsewhere: nothing can be done with it until all of it is
        if isinstance(error, ReadOnlyError):
            link.drop()
            self._slots = []
            return False
        if text.startswith(("OOM", "MISCONF")) or "command not allowed when used memory" in text:
            if time.monotonic() - began > min(FULL_FOR, self.place.retry_for):
                raise self._translated(error) from error
            return False
        temporary = ("LOADING", "BUSY", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "NOREPLICAS")
        if safe and (type(error).__name__.startswith(("BusyLoading", "TryAgain", "ClusterDown", "MasterDown"))):
            return False
        if safe and text.startswith((*temporary, "Redis is loading", "UNBLOCKED")):
            return False
        raise self._translated(error) from error

    def _translated(self, error: Exception) -> StoreError:
        """Return our error for one of the server's, with what to do next."""
        text = str(error) or type(error).__name__
        if isinstance(error, Unsent):
            return StoreError(f"{self.place} cannot be reached: {text}; check that it runs, its address and password")
        if isinstance(error, Lost):
            return StoreError(f"{self.place} did not answer: {text}; the call may be repeated")
        if text.startswith("OOM") or "used memory" in text:
            return StoreFull(f"{self.place} has no memory left (maxmemory); nothing of this call was written ({text})")
        if text.startswith("MISCONF"):
            what = "append-only file" if "AOF" in text else "snapshots"
            return StoreFull(
                f"{self.place} cannot write its {what} to disk; nothing of this call was written ({text}); "
                "make room on the server's disk"
            )
        if isinstance(error, ReadOnlyError) or "read only replica" in text:
            return StoreReadOnly(f"{self.place} is a replica and cannot be written; connect to the primary")
        if isinstance(error, AuthenticationError | AuthorizationError) or text.startswith(("NOAUTH", "WRONGPASS")):
            return StoreError(f"{self.place} refuses this login: {text}; check user and password in the URL")
        if isinstance(error, NoPermissionError):
            return StoreError(f"{self.place}: {text}; docs/reference/redis.md says what an ACL user needs")
        if isinstance(error, AskError):
            return StoreBusy(f"{self.place}: the slot of this queue is being moved ({text}); try again later")
        busy = type(error).__name__.startswith(("BusyLoading", "TryAgain", "ClusterDown", "MasterDown"))
        if busy or text.startswith(("BUSY", "LOADING", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN")):
            return StoreBusy(f"{self.place} was busy for over {self.place.retry_for:g} s: {text}; try again later")
        return StoreError(f"{self.place}: {text}")

    # --- the library

    async def _ensure_libraries(self) -> None:
        """Every primary has our functions, however often its connection broke meanwhile."""
        deadline, pause = time.monotonic() + self.place.retry_for, FIRST_PAUSE
        while True:
            try:
                for link in await self._all():
                    await self._ensure_library(link)
                return
            except Unsent as error:
                if time.monotonic() + pause > deadline:
                    raise self._translated(error) from error
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _ensure_library(self, link: Link) -> None:
        """The node has our functions, or newer ones; never does an older library replace a newer."""
        try:
            await self._load(link)
        except Lost as error:
            raise Unsent(str(error)) from error  # loading twice is loading once

    async def _load(self, link: Link) -> None:
        async with self._loading:
            for _ in range(3):
                version = await self._version(link)
                if version is not None and version >= library.MINOR:
                    return
                replace = ["REPLACE"] if version is not None else []
                (reply,) = await link.send([["FUNCTION", "LOAD", *replace, library.source()]])
                if isinstance(reply, Exception) and "already exists" not in str(reply):
                    raise _Mending(reply) if isinstance(reply, ReadOnlyError) else self._unloadable(reply)
            raise StoreTooNew(f"{self.place} has another library named {library.NAME}: remove it (FUNCTION DELETE)")

    async def _version(self, link: Link) -> int | None:
        (reply,) = await link.send([["FCALL_RO", library.function("version"), 0]])
        if isinstance(reply, int):
            return reply
        if "unction not found" in str(reply):
            return None
        raise _Mending(reply)

    def _unloadable(self, error: Exception) -> StoreError:
        if isinstance(error, NoPermissionError):
            return StoreError(
                f"{self.place}: its functions are not there, or older than this Holdfast's, and this user may not load "
                f"them ({error}): run holdfast migrate as a user who may (docs/reference/redis.md)"
            )
        return StoreError(f"{self.place} does not take our functions: {error}; Redis 7.0 or Valkey 7.2 is needed")

    async def refresh_library(self, version: int) -> None:
        """A library that an older client put in the place of ours is replaced."""
        if version < library.MINOR:
            await self._ensure_libraries()


class _Mending(Unsent):
    """The library could not be looked at now: the call is repeated as if the server had not been reached."""

    def __init__(self, error: Any) -> None:
        super().__init__(str(error))
