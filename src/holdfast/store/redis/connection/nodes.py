"""Which node a call goes to: the one server, the master that sentinels name, or the node of a cluster with the key."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from redis.asyncio.connection import AbstractConnection
from redis.crc import key_slot
from redis.exceptions import MovedError, RedisError

from ....errors import ConfigError
from .address import RedisAddress
from .link import Lost, RedisLink, Unsent, connect

SLOTS = 16384
Node = tuple[str, int]


class Nodes:
    """The links to all nodes of one address."""

    def __init__(self, address: RedisAddress) -> None:
        self._address = address
        self._links: dict[Node, RedisLink] = {}
        self._slots: list[Node] = []
        self.connections = 0
        """How often anything was connected: behind a new connection may be another server, which knows less."""

    @property
    def first(self) -> RedisLink:
        """The link to the only server; of a cluster, to the first node that the address names."""
        return self._link(self._address.hosts[0])

    async def all(self) -> list[RedisLink]:
        """Return a link to every primary."""
        if self._address.kind != "cluster":
            return [self.first]
        if not self._slots:
            await self._learn_slots()
        return [self._link(node) for node in sorted(set(self._slots))]

    async def having(self, key: str | None) -> RedisLink:
        """Return the link to the node that has a key; without a key, to any."""
        if self._address.kind != "cluster":
            return self.first
        if not self._slots:
            await self._learn_slots()
        slot = random.randrange(SLOTS) if key is None else key_slot(key.encode())
        return self._link(self._slots[slot])

    def known(self, key: str) -> RedisLink | None:
        """Return the link to the node that has a key, where it is known which has."""
        if self._address.kind != "cluster":
            return self.first
        return self._link(self._slots[key_slot(key.encode())]) if self._slots else None

    def forget_slots(self) -> None:
        """Ask anew, before the next call, which node has which slots."""
        self._slots = []

    def move_slot(self, error: MovedError) -> None:
        """Note the node that has a slot now."""
        if self._slots:  # or else another call has found out already, and they are learnt anew
            self._slots[error.slot_id] = (error.host or self._address.hosts[0][0], error.port)

    async def connection(self) -> AbstractConnection:
        """Return a new connection, to a node of the caller's liking."""
        return await (await self.having(None)).connection()

    async def close(self) -> None:
        """Close every link."""
        links, self._links, self._slots = list(self._links.values()), {}, []
        for link in links:
            await link.close()

    def _link(self, node: Node) -> RedisLink:
        link = self._links.get(node)
        if link is None:

            async def make() -> AbstractConnection:
                host, port = await self._master() if self._address.kind == "sentinel" else node
                made = await connect(self._address, host, port)
                self.connections += 1
                return made

            link = self._links[node] = RedisLink(make, self._address.timeout, polls=self._address.busy_poll)
        return link

    async def _master(self) -> Node:
        """Return where the sentinels say that the master is."""
        problem = "no sentinel was asked"
        for host, port in self._address.hosts:
            try:
                found = await self._ask_sentinel(host, port)
            except (Unsent, RedisError, OSError) as error:
                problem = str(error)
                continue
            if isinstance(found, list):
                return found[0].decode(), int(found[1])
            problem = f"the sentinel at {host}:{port} knows no master named {self._address.master!r}"
        raise Unsent(problem)

    async def _ask_sentinel(self, host: str, port: int) -> object:
        connection = await connect(self._address.of_sentinel(host, port), host, port)
        try:
            async with asyncio.timeout(self._address.timeout):
                await connection.send_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._address.master)
                return await connection.read_response(disable_decoding=True)
        finally:
            await connection.disconnect()

    async def _learn_slots(self) -> None:
        problem = "no node was asked"
        for node in [*self._links, *self._address.hosts]:
            try:
                (found,) = await self._link(node).send([["CLUSTER", "SLOTS"]])
            except (Unsent, Lost) as error:
                problem = str(error)
                continue
            if isinstance(found, Exception):
                if "cluster support disabled" in str(found):
                    raise ConfigError(f"{self._address} is no cluster ({found}): use redis:// without +cluster")
                problem = str(found)
                continue
            slots = _slots(found, node[0])
            if slots is not None:
                self._slots = slots
                return
            problem = f"{node[0]}:{node[1]} knows no node for some slots"
        raise Unsent(problem)


def _slots(found: list[Any], asked: str) -> list[Node] | None:
    """Return the node of each slot; `None` where some slot has none. A node may not know its own host name."""
    slots: list[Node | None] = [None] * SLOTS
    for first, last, primary, *_ in found:
        host = (primary[0] or b"").decode() or asked
        slots[first : last + 1] = [(host, int(primary[1]))] * (last + 1 - first)
    complete = [node for node in slots if node is not None]
    return complete if len(complete) == SLOTS else None
