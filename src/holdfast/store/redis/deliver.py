"""Steps across queues: what one queue has for others is carried over, in order, and applied once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import StoreError
from .base import Base

LARGEST = 16 * 1024 * 1024
"""Bytes that one call brings, but for a single job that has more: a server closes connections that bring a gigabyte."""


class Delivering(Base):
    """Carries messages from outboxes to queues; see `lua/outbox.lua`."""

    async def _deliver_all(self, queues: Sequence[str], messages: list[Any] | None = None) -> None:
        for queue in queues:
            try:
                await self._deliver(queue, messages)
            except StoreError:
                return  # it is written down, and the next upkeep of anybody delivers it

    async def _deliver(self, queue: str, messages: list[Any] | None = None) -> None:
        """What the queue has for others is applied there, and so is what follows; `messages` are known to be first."""
        todo = [queue]
        while todo:
            sender = todo.pop()
            key = self._keys.declared(sender)
            flat = messages if messages is not None else await self._server.call("outbox", [key], "")
            messages = None
            while flat:
                for name, part in _by_target(flat):
                    if await self._hand_over(sender, name, part) and name not in todo:
                        todo.append(name)
                flat = await self._server.call("outbox", [key], flat[-4])

    async def _hand_over(self, sender: str, name: str, messages: list[Any]) -> bool:
        """Messages are applied in one queue, which knows what it had before; return whether others follow from them."""
        await self._know(name)
        reply = await self._server.call("receive", [self._keys.declared(name)], self._now(), name, sender, *messages)
        return bool(reply == b"posted")


def _by_target(flat: list[Any]) -> list[tuple[str, list[Any]]]:
    """Return messages by the queue that they are for, in their order: number, kind and body of each."""
    found: list[tuple[str, list[Any]]] = []
    for number, target, kind, body in zip(flat[::4], flat[1::4], flat[2::4], flat[3::4], strict=True):
        name = target.decode()
        if not found or found[-1][0] != name:
            found.append((name, []))
        found[-1][1].extend((number, kind, body))
    return found
