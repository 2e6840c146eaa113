"""One store, one model, three workers that come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from hypothesis.stateful import RuleBasedStateMachine

from ....core.policy import Policy
from ....store.contract import (
    Declaration,
    Lease,
    Session,
    Settlement,
)
from ...clock import ManualClock
from ...model import Model
from ...replay import Replay
from ..bench import QUEUE, TASK, Bench
from ..harness import Harness
from .step import LEASE_MS, RETRY, SETTINGS, SLOTS, T, queue_settings


class MachineBase(RuleBasedStateMachine):
    """One store, one model, three workers that come and go."""

    harness: Harness
    """The place of which every example gets a fresh one."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = ManualClock()
        here = self.harness.fresh()
        self.store = here.make(self.clock)
        self.bench = Bench(here, self.store, self.clock)
        self.model = Model(queue_settings({}), RETRY)
        self.limits: dict[str, Any] = {}
        self.version = 0
        """Of what workers declare."""
        self.sessions: list[Session] = []
        self.crashed: list[Session] = []
        self.heard: dict[str, int] = {}
        self.dead: set[str] = set()
        self.held: dict[str, list[Lease]] = {}
        self.done: list[tuple[Session, Settlement]] = []
        self.position: str | None = None
        self.replay = Replay()
        self.payloads = self.taken = 0
        self._run(self._open())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    async def _open(self) -> None:
        await self.store.open()
        tasks = {TASK: Policy(retry=RETRY)}
        await self.store.declare([Declaration(queue=QUEUE, settings=SETTINGS, tasks=tasks)])
        for _ in range(3):
            self.sessions.append(await self._session())

    async def _session(self) -> Session:
        session = await self.bench.session(QUEUE, lease_ms=LEASE_MS, slots=SLOTS)
        self.heard[session.id] = self.clock.now_ms
        self.held[session.id] = []
        return session

    def _one_of(self, id: str, pick: int) -> str:
        """Return the id; or, every third time, that of a later job of a chain."""
        later = [run.id for run in self.model.kept(self.now) if run.position]
        return later[pick % len(later)] if later and pick % 3 == 0 else id

    @property
    def now(self) -> int:
        return self.clock.now_ms
