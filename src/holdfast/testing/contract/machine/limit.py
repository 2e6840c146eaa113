"""Time passes, and limits change."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from ....core.limit import Rate
from ....store.contract import Declaration
from ..bench import QUEUE
from .base import MachineBase
from .step import KEYS, RATES, SETTINGS, SMALL, often, queue_settings


class LimitSteps(MachineBase):
    """What a queue may give, and when."""

    @often(4, ms=st.sampled_from([1, 500, 1000, 1024, 2048, 5000, 16_000, 21_000]))
    def pass_time(self, ms: int) -> None:
        self._run(self.bench.tick(ms / 1000))

    @often(
        3,
        name=st.sampled_from(
            ["paused", "concurrency", "key_concurrency", "rate", "key_rate", "one key", "declared key"]
        ),
        limit=SMALL,
        rate=RATES,
        key=st.sampled_from(KEYS),
    )
    def change_a_limit(self, name: str, limit: int | None, rate: Rate | None, key: str) -> None:
        if name == "one key":
            self._limit_key(key, limit)
        elif name == "declared key":
            self._declare_key_limit(key, limit)
        elif name == "paused":
            self._configure(paused=limit == 1 and not self.model.settings.paused)
        elif name in ("rate", "key_rate"):
            # What a bucket holds when one rate follows another is not of the contract: none comes in between.
            self._configure(**{name: None if getattr(self.model.settings, name) else rate})
        else:
            self._configure(**{name: limit})

    def _limit_key(self, key: str, limit: int | None) -> None:
        self._run(self.store.limit_key(QUEUE, key, limit))
        if limit is None:
            self.model.key_limits.pop(key, None)
        else:
            self.model.key_limits[key] = limit

    def _declare_key_limit(self, key: str, limit: int | None) -> None:
        """Workers of a new version say another limit of the key, or none; what an operator said of it is above that."""
        limits = {**self.limits.get("key_limits", {}), key: limit}
        self.limits["key_limits"] = declared = {name: each for name, each in limits.items() if each is not None}
        self.version += 1
        settings = {**SETTINGS, "key_limits": declared}
        self._run(self.store.declare([Declaration(queue=QUEUE, version=self.version, settings=settings)]))
        self.model.configure(queue_settings(self.limits))

    def _configure(self, **changes: Any) -> None:
        self.limits.update(changes)
        assert self._run(self.store.configure(QUEUE, changes)) == queue_settings(self.limits)
        self.model.configure(queue_settings(self.limits))
