"""Keys of another type than ours, because another program wrote there: they are set aside."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from ....errors import StoreCorrupt
from ..arguments.produce import EnqueueAlikeCall, EnqueueCall
from ..arguments.work import MistypedCall
from ..caller import RedisCaller
from ..keys import STORE_ENDINGS
from .library import function
from .link import Command

log = logging.getLogger("holdfast")
ENQUEUES = {function(EnqueueCall), function(EnqueueAlikeCall)}
IN_VAIN, AGAIN = 50, 5.0
"""So many searches in vain within so many seconds mean another trouble: many calls may meet one key at once."""


class MistypedKeys:
    """Sets keys of another type aside when a call has met one; see `lua/serve/mistyped.lua`."""

    def __init__(self, caller: RedisCaller) -> None:
        self._caller = caller
        self._server = caller.server
        self._keys = caller.keys
        self._in_vain: list[float] = []
        caller.server.on_wrong_type = self.met

    async def met(self, commands: Sequence[Command], repeat: bool) -> bool:
        """True when the commands may be sent again.

        The error comes in the middle of a function: what a claim or an enqueue did before it, its caller was not told.
        """
        functions = {command[1] for command in commands if str(command[0]).startswith("FCALL")}
        if function(MistypedCall) in functions:
            return False
        keys = {each for command in commands for each in command if isinstance(each, str) and each[:1] == "{"}
        queues = {queue for key in keys if (queue := self._keys.queue_of(key)) is not None}
        found = [await self.set_aside(queue) for queue in sorted(queues)]
        if not any([*found, await self._set_store_aside()]) and self._is_hopeless():
            return False
        if not repeat or ENQUEUES & functions:
            raise StoreCorrupt(
                f"{self._server.address}: another program wrote over a key of queue {', '.join(sorted(queues))}, "
                "which is set aside now (holdfast doctor names it); what was done of this call, the next one will tell"
            )
        return True

    def _is_hopeless(self) -> bool:
        """True when keys were looked for in vain over and over. At first another process may have set them aside."""
        now = time.monotonic()
        self._in_vain = [at for at in self._in_vain if now - at < AGAIN] + [now]
        return len(self._in_vain) > IN_VAIN

    async def set_aside(self, queue: str) -> bool:
        """True when a key of the queue was of another type. What can be is put together again from the records."""
        call, wrong = MistypedCall(queue=queue, cursor=b"0", latest=0), False
        while True:
            found = await self._caller.call(queue, call)
            wrong = wrong or found.keys > 0
            if found.cursor == b"0":
                return wrong
            call = MistypedCall(queue=queue, cursor=found.cursor, latest=found.latest)

    async def _set_store_aside(self) -> bool:
        """The same for the keys of the whole namespace. The queues that are known here are in their list again."""
        wrong = False
        for name, (_, kind, meaning) in STORE_ENDINGS.items():
            key = self._keys.of_store(name)
            found = (await self._server.ask(["TYPE", key], key)).decode()
            if found in ("none", kind):
                continue
            wrong, aside = True, self._keys.mistyped(name)
            await self._server.ask(["RENAME", key, aside], key)
            log.error("corrupt_record: key %s was a %s and no %s, and is %s now: %s", key, found, kind, aside, meaning)
            if name == "queues" and self._caller.known:
                await self._server.ask(["SADD", key, *self._caller.known], key)
        return wrong
