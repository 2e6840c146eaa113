"""Steps across queues: what one queue has for others is carried over, in order, and applied once."""

from __future__ import annotations

from ...errors import StoreError
from .arguments.entry import Flat, in_groups
from .arguments.produce import MessageFields, OutboxCall, ReceiveCall
from .caller import RedisCaller


class RedisOutbox:
    """Carries messages from outboxes to queues; see `lua/lib/outbox.lua`."""

    def __init__(self, caller: RedisCaller) -> None:
        self._caller = caller

    async def try_to_deliver(self, *queues: str, messages: Flat | None = None) -> None:
        """Deliver what these queues have for others; where that fails, the next upkeep of any worker does it."""
        for queue in queues:
            try:
                await self.deliver(queue, messages)
            except StoreError:
                return

    async def deliver(self, queue: str, messages: Flat | None = None) -> None:
        """Apply what the queue has for others, and what follows from it; `messages` are known to be its first."""
        todo = [queue]
        while todo:
            sender = todo.pop()
            flat = messages if messages is not None else await self._caller.call(sender, OutboxCall(delivered=None))
            messages = None
            while flat:
                for name, part in _by_target(flat):
                    if await self._send(sender, name, part) and name not in todo:
                        todo.append(name)
                last = MessageFields._make(flat[-len(MessageFields._fields) :])
                flat = await self._caller.call(sender, OutboxCall(delivered=str(last.number)))

    async def _send(self, sender: str, name: str, messages: Flat) -> bool:
        """Apply messages in one queue, which knows those that it had before; return whether others follow from them."""
        await self._caller.know(name)
        reply = await self._caller.call(name, ReceiveCall(queue=name, sender=sender), messages)
        return reply == b"posted"


def _by_target(flat: Flat) -> list[tuple[str, Flat]]:
    """Return messages by the queue that they are for, in their order: number, kind and body of each."""
    found: list[tuple[str, Flat]] = []
    for number, target, kind, body in in_groups(flat, MessageFields):
        name = target.decode()
        if not found or found[-1][0] != name:
            found.append((name, []))
        found[-1][1].extend((number, kind, body))
    return found
