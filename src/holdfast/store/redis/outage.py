"""Outages: while no session could be heard, none is declared dead for it."""

from __future__ import annotations

import math
import time

from ...core.bound import PULSE_MS, PULSES_IN_A_LEASE, SHORTEST_LEASE_MS
from ...errors import StoreError
from .arguments.work import HearCall
from .caller import RedisCaller


class Outages:
    """Notes when the store was last heard, and by how much expiries moved since."""

    def __init__(self, caller: RedisCaller) -> None:
        self._caller = caller
        self.shift = 0
        """By how much expiries have moved in all, in milliseconds."""
        self._heard: float | None = None
        self._longest_lease = 0.0
        self._spared: dict[str, float] = {}
        """By queue: until when no session is declared dead there."""

    def note_lease(self, lease_ms: int) -> None:
        """Note the lease of a session that is registered here."""
        self._longest_lease = max(self._longest_lease, lease_ms / 1000)

    def was_heard_lately(self, within_ms: float) -> bool:
        """True when the store was heard so lately, by the real clock, that it need not be asked again."""
        return (
            self._heard is not None
            and self._caller.clock is None
            and time.monotonic() * 1000 - self._heard <= within_ms
        )

    async def hear(self, lease_ms: int | None = None) -> int:
        """Note that a session is heard now. Return by how much expiries moved with it, after a while of silence."""
        clock = self._caller.clock
        now = time.monotonic() * 1000 if clock is None else float(clock())
        # A reaper has no lease, and does not know whether sessions that vanished had a long one.
        often_enough = min(PULSE_MS, (lease_ms or SHORTEST_LEASE_MS) // PULSES_IN_A_LEASE)
        if self._heard is not None and 0 <= now - self._heard < often_enough:
            return 0
        found = await self._caller.call_at([self._caller.keys.of_store("store")], HearCall(lease_ms=lease_ms))
        self._heard = now
        self.shift = found.shift
        await self._caller.server.loader.refresh(found.version)
        return found.gap

    async def spares(self, queue: str) -> bool:
        """True for a lease after the queue's node, alone among others, was away: no session could be heard there."""
        key, began = self._caller.keys.declared(queue), time.monotonic()
        try:
            await self._caller.server.ask(["EXISTS", key], key)
        except StoreError:
            self._spared[queue] = math.inf
            raise
        now = time.monotonic()
        if now - began > self._longest_lease / 3 or self._spared.get(queue) == math.inf:
            self._spared[queue] = now + self._longest_lease
        return now < self._spared.get(queue, 0.0)
