"""Puts the library of functions onto every primary that lacks it, or has an older one."""

from __future__ import annotations

import asyncio
import time

from redis.exceptions import NoPermissionError, ReadOnlyError

from ....errors import StoreError, StoreTooNew
from . import library
from .address import RedisAddress
from .link import Lost, RedisLink, Unsent
from .nodes import Nodes
from .trouble import translated

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.5
TRIES = 3


class Loader:
    """Loads the library; never does an older one replace a newer."""

    def __init__(self, address: RedisAddress, nodes: Nodes) -> None:
        self._address = address
        self._nodes = nodes
        self._loading = asyncio.Lock()

    async def load_everywhere(self) -> None:
        """Load the library onto every primary, however often its connection breaks meanwhile."""
        deadline, pause = time.monotonic() + self._address.retry_for, FIRST_PAUSE
        while True:
            try:
                for link in await self._nodes.all():
                    await self.load(link)
                return
            except Unsent as error:
                if time.monotonic() + pause > deadline:
                    raise translated(self._address, error) from error
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def load(self, link: RedisLink) -> None:
        """Load the library onto one node, unless it is there."""
        try:
            async with self._loading:
                await self._load(link)
        except Lost as error:
            raise Unsent(str(error)) from error  # loading twice is loading once

    async def refresh(self, version: int) -> None:
        """Replace a library that an older client has put in the place of ours."""
        if version < library.MINOR:
            await self.load_everywhere()

    async def _load(self, link: RedisLink) -> None:
        for _ in range(TRIES):
            version = await self._version(link)
            if version is not None and version >= library.MINOR:
                return
            replace = ["REPLACE"] if version is not None else []
            (reply,) = await link.send([["FUNCTION", "LOAD", *replace, library.source()]])
            if isinstance(reply, ReadOnlyError):
                raise Unsent(str(reply))
            if isinstance(reply, Exception) and "already exists" not in str(reply):
                raise self._unloadable(reply)
        raise StoreTooNew(f"{self._address} has another library named {library.NAME}: remove it (FUNCTION DELETE)")

    async def _version(self, link: RedisLink) -> int | None:
        (reply,) = await link.send([["FCALL_RO", library.VERSION, 0]])
        if isinstance(reply, int):
            return reply
        if "unction not found" in str(reply):
            return None
        raise Unsent(str(reply))  # it cannot be looked at now: the call is repeated, as if the server were away

    def _unloadable(self, error: Exception) -> StoreError:
        if isinstance(error, NoPermissionError):
            return StoreError(
                f"{self._address}: its functions are not there, or older than this Holdfast's, and this user may not "
                f"load them ({error}): run holdfast migrate as a user who may (docs/reference/redis.md)"
            )
        return StoreError(f"{self._address} does not take our functions: {error}; Redis 7.0 or Valkey 7.2 is needed")
