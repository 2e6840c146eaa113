"""A history worth telling: a store whose jobs are driven at random, by the minute, with everything that can happen."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

from holdfast import Event, Rate
from holdfast.core.job import ErrorRecord
from holdfast.core.policy import Cause
from holdfast.core.state import State
from holdfast.store.contract import Claimed, Filter, Session, Settlement, Store
from holdfast.testing import ManualClock
from holdfast.testing.contract import Bench, Harness
from holdfast.testing.contract.bench import UPDATE, complete, fail, new, release, retry, snooze

QUEUES = ("mail", "images")
FAR = 3600 * 1000


class History:
    """Drives a store with a clock of its own."""

    def __init__(self, harness: Harness, store: Store, clock: ManualClock, seed: int = 1) -> None:
        self.bench = Bench(harness, store, clock)
        self.store = store
        self.clock = clock
        self.random = random.Random(seed)
        self.ids = 0
        self.held: dict[str, list[Claimed]] = {}
        self.sessions: dict[str, Session] = {}
