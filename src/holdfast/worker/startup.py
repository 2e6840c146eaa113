"""Before a worker claims: its handlers can run here, and the store knows its declarations."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from ..app.check import check_task
from ..app.registry import Registry
from ..app.task import AnyTask
from ..errors import ConfigError, PolicyConflict
from ..executor.sandbox.enter import missing
from .attempts.handler_services import HandlerServices
from .recovery import Retrying
from .runner import Runner
from .settings import WorkerApp
from .upkeep.ticker import Ticker

log = logging.getLogger("holdfast")


def prepare(runner: Runner, queues: Sequence[str], patience: float) -> None:
    """Prepare to run all tasks of these queues; raise when one of them cannot run here."""
    tasks = [task for queue in queues for task in runner.registry.runners(queue)]
    _hint(tasks, patience)
    prepare_tasks(runner, tasks)


def prepare_tasks(runner: Runner, tasks: Sequence[AnyTask]) -> None:
    """Check that these tasks can run here, and start processes for those that run in one."""
    for task in tasks:
        check_task(runner.registry, task)  # a queue may have been given settings after its tasks were declared
        if task.slots > runner.slots:
            raise ConfigError(
                f"task {task.name!r}: size={task.size}: its jobs take more slots than this worker's {runner.slots}: "
                f"they would never run; start it with slots={task.size}, or serve their queue elsewhere"
            )
    executors, wanted = runner.executors, [task for task in tasks if task.in_process]
    for task in wanted:
        if lacking := missing(task.setting("sandbox")) if task.runs_in == "sandbox" else []:
            raise ConfigError(
                f"task {task.name!r}: executor='sandbox' cannot be kept here: this system lacks {'; '.join(lacking)}"
            )
        executors.handler(task)
    if any(task.runs_in == "process" for task in wanted):
        executors.pool.start()
    if boxed := {task.setting("sandbox") for task in wanted if task.runs_in == "sandbox"}:
        executors.pool.expect(boxed)


def _hint(tasks: Sequence[AnyTask], patience: float) -> None:
    """Log whose handlers could stop the heartbeats, and after how long: louder for those that run in the event loop."""
    for executor, level in (("inline", logging.INFO), ("thread", logging.DEBUG)):
        names = [each.name for each in tasks if each.runs_in == executor and not inspect.iscoroutinefunction(each.fn)]
        if names:
            log.log(
                level,
                "heartbeat_hint: def handlers run %s: %s. Native code that holds the interpreter lock for longer than "
                "%g s would stop the heartbeats, so that another worker takes the jobs; with executor='process' it "
                "does not",
                executor, ", ".join(names), patience,
            )  # fmt: skip


@dataclass
class ServedQueues:
    """The queues of a worker."""

    queues: tuple[str, ...]
    is_open: bool
    """It serves every queue that the app declares, now or later."""
    changes: int = 0
    """How often anything had been declared when the worker last told the store."""

    def refresh(self, registry: Registry) -> None:
        """Take in all queues that are declared by now, if it serves every queue."""
        if self.is_open:
            self.queues = tuple(registry.queues)

    def are(self, registry: Registry, queues: Sequence[str]) -> bool:
        """Return whether these are all the queues, and nothing was declared since."""
        return self.changes == registry.changes and set(self.queues) == set(queues)


class Declarations:
    """Declare in the store what a worker's app declares, as often as it takes."""

    def __init__(self, app: WorkerApp, served: ServedQueues, retrying: Retrying, *, overrule: bool = False) -> None:
        self._app = app
        self._overrule = overrule
        """Whether this code is right, whatever was declared under the same version: it is being developed."""
        self._served = served
        self._retrying = retrying

    async def begin(self, services: HandlerServices, ticker: Ticker | None) -> None:
        """Declare everything and read the policies in force; with a ticker, as for a burst, fire what is due."""
        await self.declare()
        for queue in self._served.queues:
            await self._retrying.do(functools.partial(services.refresh, queue))
        if ticker is not None:
            await self._retrying.do(ticker.round)

    async def declare(self) -> None:
        """Declare the queues, their tasks and their schedules."""
        app, self._served.changes = self._app, self._app.registry.changes
        declarations = app.registry.declarations(self._served.queues, overrules=self._overrule)
        await self._retrying.do(lambda: app.store.declare(declarations))
        await self._retrying.do(lambda: app.schedules.declare(self._served.queues, overrules=self._overrule))

    async def declare_again(self) -> None:
        """Declare everything once more: a store that forgot the worker's session may have been emptied."""
        try:
            await self.declare()
        except PolicyConflict as error:
            log.error("policy_conflict: this worker goes on with what others have declared meanwhile: %s", error)
