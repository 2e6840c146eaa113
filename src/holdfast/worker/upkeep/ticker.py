"""The ticker: sleep until a schedule of the worker's queues is due, and fire it unless another worker was quicker."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence

from ...app.hooks import HookEvent, Hooks
from ...app.registry import Registry
from ...client.outgoing import Producers
from ...core.transition import Reply
from ...errors import ConfigError, StoreError
from ...schedule import Shot, fire
from ...store.contract import Due, ScheduleRow, Store
from ..turns.wakeups import Alarm

log = logging.getLogger("holdfast")
FIRED_AT_ONCE = 100
SPREAD = 0.02
"""Workers that wait for the same tick come up to so many seconds after it, so that most find it fired already."""


class Ticker:
    """Fire the schedules that are due in some queues. A worker's registry says which tasks it could run."""

    def __init__(
        self,
        store: Store,
        registry: Registry | None,
        queues: Sequence[str],
        hooks: Hooks,
        interval: float,
        producers: Producers | None = None,
    ) -> None:
        self._store = store
        self._producers = registry.client.producers if registry is not None else producers
        self._registry = registry
        self.queues = queues
        self.fired = 0
        """How many schedules it has fired."""
        self._hooks = hooks
        self._interval = interval
        self._told: set[tuple[str, str]] = set()
        self.alarm = Alarm()

    async def run(self) -> None:
        """Fire every tick when it comes. What others change is seen after `interval` seconds at the latest."""
        while True:
            wait = self._interval
            try:
                wait = min(wait, await self.round())
            except StoreError as error:
                log.warning("schedules_unread: the next round tries again: %s", error)
            except Exception:
                log.exception("schedules_unread: the next round tries again")
            await self.alarm.wait(wait)

    async def round(self) -> float:
        """Fire what is due; return the seconds until the next tick."""
        while True:
            due = await self._store.due(self.queues, FIRED_AT_ONCE)
            if not await self._fire_all(due):  # what cannot be fired here must not be tried over and over
                break
        if due.next_at_ms is None:
            return self._interval
        return (due.next_at_ms - due.now_ms) / 1000 + random.uniform(0, SPREAD)

    async def _fire_all(self, due: Due) -> bool:
        """Return whether any was dealt with. They go in no order, so that workers at the same list seldom meet."""
        progress = False
        for row in random.sample(due.rows, len(due.rows)):
            reply = await self._fire(row, due.now_ms)
            progress = progress or reply is not None
            if reply is not None and reply is not Reply.OK:
                break  # another is at it, too: what is left to do, a new look will tell
        return progress

    async def _fire(self, row: ScheduleRow, now_ms: int) -> Reply | None:
        """Return the store's reply, `None` when the schedule cannot be read here."""
        try:
            shot = await fire(self._store, row, now_ms, self._producers)
        except ConfigError as error:
            self._tell_once(row.queue, row.name, str(error))
            return None
        if shot.fired.reply is Reply.OK:
            self._fired(row, shot)
        return shot.fired.reply

    def _fired(self, row: ScheduleRow, shot: Shot) -> None:
        self.fired += 1
        task = shot.schedule.task
        if task is not None and self._registry is not None and task not in self._registry.tasks:
            problem = f"schedule {row.name!r}: no task named {task!r} in this worker; another may know it"
            self._tell_once(row.queue, task, problem)
        for answer in shot.fired.answers:
            if answer.status == "duplicate":
                log.info("tick_skipped: schedule %s: %s is unfinished", row.name, answer.id)
        if "schedule_fired" in self._hooks.wanted:
            for answer in shot.fired.answers:
                self._hooks.tell(
                    HookEvent(
                        name="schedule_fired", queue=row.queue, id=answer.id, run=answer.run, task=task,
                        state=answer.state, detail=f"{row.name}: {answer.status}",
                    )
                )  # fmt: skip

    def _tell_once(self, queue: str, what: str, problem: str) -> None:
        if (queue, what) not in self._told:
            self._told.add((queue, what))
            log.error("schedule_problem: queue %s: %s", queue, problem)
            self._hooks.tell(HookEvent(name="worker_error", queue=queue, detail=problem))
