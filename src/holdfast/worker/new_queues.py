"""New queues: those that are declared while a worker runs are served without a restart."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from msgspec.structs import replace

from ..app.hooks import HookEvent, Hooks
from ..app.task import AnyTask
from ..errors import ConfigError
from ..store.contract import Session, Store
from .pump import Pump
from .recovery import Retrying, Stopped
from .runner import Runner
from .settings import task_leases
from .startup import Declarations, ServedQueues, prepare_tasks
from .turns.capacity import Capacity
from .turns.wakeups import Alarm

log = logging.getLogger("holdfast")


class NewQueues:
    """Prepare new queues, declare them, and have them asked for jobs under the session that there is.

    `serve` is called with the session that has the new queues, once the store knows it.
    """

    def __init__(
        self,
        store: Store,
        hooks: Hooks,
        *,
        served: ServedQueues,
        lease_ms: int,
        pump: Pump,
        runner: Runner,
        capacity: Capacity,
        declarations: Declarations,
        retrying: Retrying,
        serve: Callable[[Session], Awaitable[None]],
    ) -> None:
        self._store, self._hooks, self._registry = store, hooks, runner.registry
        self._served, self._lease_ms = served, lease_ms
        self._pump, self._runner, self._capacity = pump, runner, capacity
        self._declarations, self._retrying, self._serve = declarations, retrying, serve
        self._prepared: set[AnyTask] = set()
        self._refused: set[tuple[str, str]] = set()
        self._alarm = Alarm()
        self._alarm.ring()  # something may have been declared while the session began
        self._loop = asyncio.get_running_loop()
        self._registry.bells.add(self._ring)

    def _ring(self) -> None:
        """Look for new queues, as something was declared, in whatever thread."""
        with suppress(RuntimeError):  # the loop is closed, and the worker with it
            self._loop.call_soon_threadsafe(self._alarm.ring)

    def close(self) -> None:
        """Look for new queues no longer."""
        self._registry.bells.discard(self._ring)

    async def run(self) -> None:
        """Serve whatever is declared, for ever."""
        while True:
            await self._alarm.wait()
            if self._served.changes == self._registry.changes:
                continue
            try:
                self._take_in()
                await self._declarations.declare_again()
            except Stopped:
                return
            except Exception:
                log.exception("declare_failed: what was declared while this worker runs is not in the store")
            self._pump.widen(self._widened)

    def _take_in(self) -> None:
        """Add new queues to those that are served, if their tasks can run here."""
        known = self._served.queues
        for queue in known:
            self._is_fit(queue)
        if self._served.is_open:
            new = [queue for queue in list(self._registry.queues) if queue not in known and self._is_fit(queue)]
            self._served.queues = (*known, *new)

    def _is_fit(self, queue: str) -> bool:
        """Return whether all tasks that may run a job of the queue can run here; if not, say so once."""
        try:
            new = [task for task in self._registry.runners(queue) if task not in self._prepared]
            prepare_tasks(self._runner, new)
            self._refuse_a_longer_lease(queue)
            self._refuse_without_resources(queue)
        except ConfigError as error:
            self._tell_once(queue, str(error))
            return False
        self._prepared.update(new)
        return True

    def _refuse_a_longer_lease(self, queue: str) -> None:
        """Refuse tasks that want a longer lease than the session has: their jobs would be taken over too early."""
        for ms, name in task_leases(self._registry, [queue]):
            if name and ms > self._lease_ms:
                raise ConfigError(
                    f"task {name!r} has a lease of {ms / 1000:g} s, and this worker one of {self._lease_ms / 1000:g} "
                    "s; start it anew"
                )

    def _refuse_without_resources(self, queue: str) -> None:
        """Refuse tasks that need the app's resources in this process, where they can be opened only at the start."""
        here = [each for each in self._served.queues if self._capacity.demand(each).slots]
        resources = [each for each in self._registry.resources if each.scope != "attempt"]
        if resources and not here and self._capacity.demand(queue).slots:
            raise ConfigError(
                "its handlers run in the worker itself and may use the app's resources, which are not open there, "
                "as all that it serves runs in processes; start it anew"
            )

    def _tell_once(self, queue: str, problem: str) -> None:
        if (queue, problem) not in self._refused:
            self._refused.add((queue, problem))
            log.error(
                "queue_refused: queue %s was declared while this worker runs, and it cannot serve it: %s",
                queue, problem,
            )  # fmt: skip
            self._hooks.tell(HookEvent(name="worker_error", queue=queue, detail=problem))

    async def _widened(self, session: Session) -> Session:
        """Return the session with all queues, once the store knows it; no turn is pending meanwhile."""
        queues, tasks = self._served.queues, self._registry.known(self._served.queues)
        if (session.queues, session.tasks) == (queues, tasks):
            return session
        slots = self._capacity.most(queues, self._runner.slots)
        wider = replace(session, queues=queues, slots=slots, tasks=tasks)
        try:
            alive = await self._retrying.do(lambda: self._register(session, wider))
        except Stopped:
            return session
        if not alive:
            return session  # it will hear that it was declared dead, and the next one has all the queues
        await self._serve(wider)
        return wider

    async def _register(self, session: Session, wider: Session) -> bool:
        if (await self._store.extend(session)).evicted:
            return False
        await self._store.register(wider)
        return True
