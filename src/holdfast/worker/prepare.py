"""Before a worker starts: whatever its queues need of processes can be had, or is refused in words."""

from __future__ import annotations

from ..errors import ConfigError
from ..executor.sandbox.enter import missing
from .pump import Pump


def prepare(pump: Pump, queues: tuple[str, ...]) -> None:
    """Every handler that runs in a process can be found there, and the processes for plain ones are starting."""
    wanted = [task for queue in queues for task in pump.registry.runners(queue) if task.in_process]
    for task in wanted:
        if lacking := missing(task.setting("sandbox")) if task.runs_in == "sandbox" else []:
            raise ConfigError(
                f"task {task.name!r}: executor='sandbox' cannot be kept here: this system lacks {'; '.join(lacking)}"
            )
        pump.executors.handler(task)
    if any(task.runs_in == "process" for task in wanted):
        pump.pool.start()
