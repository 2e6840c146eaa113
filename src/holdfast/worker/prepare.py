"""Before a worker starts: whatever its queues need of processes can be had, or is refused in words."""

from __future__ import annotations

import inspect
import logging
from typing import Any

from ..errors import ConfigError
from ..executor.sandbox.enter import missing
from ..task import Task
from .pump import Pump

log = logging.getLogger("holdfast")


def prepare(pump: Pump, queues: tuple[str, ...], patience: float) -> None:
    """Every handler that runs in a process can be found there, and the processes for plain ones are starting."""
    tasks = [task for queue in queues for task in pump.registry.runners(queue)]
    for task in tasks:
        pump.registry.check(task)  # a queue may have said something after its tasks were declared
    wanted = [task for task in tasks if task.in_process]
    _hint(tasks, patience)
    for task in wanted:
        if lacking := missing(task.setting("sandbox")) if task.runs_in == "sandbox" else []:
            raise ConfigError(
                f"task {task.name!r}: executor='sandbox' cannot be kept here: this system lacks {'; '.join(lacking)}"
            )
        pump.executors.handler(task)
    if any(task.runs_in == "process" for task in wanted):
        pump.pool.start()
    if boxed := {task.setting("sandbox") for task in wanted if task.runs_in == "sandbox"}:
        pump.pool.expect(boxed)


def _hint(tasks: list[Task[Any, Any]], patience: float) -> None:
    """The log says whose handlers could stop the heartbeats, and after how long: loudly those that hold up the loop."""
    for executor, level in (("inline", logging.INFO), ("thread", logging.DEBUG)):
        names = [each.name for each in tasks if each.runs_in == executor and not inspect.iscoroutinefunction(each.fn)]
        if names:
            log.log(
                level,
                "def handlers run %s: %s. Native code that holds the interpreter lock for longer than %g s would stop "
                "the heartbeats, so that another worker takes the jobs; with executor='process' it does not",
                executor, ", ".join(names), patience,
            )  # fmt: skip
