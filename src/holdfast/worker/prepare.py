"""Before a worker starts: whatever its queues need of processes can be had, or is refused in words."""

from __future__ import annotations

from ..errors import ConfigError
from .pump import Pump


def prepare(pump: Pump, queues: tuple[str, ...]) -> None:
    """Every handler that runs in a process can be found there, and the processes for plain ones are starting."""
    wanted = [task for queue in queues for task in pump.registry.runners(queue) if task.in_process]
    for task in wanted:
        if task.runs_in == "sandbox":
            raise ConfigError(f"task {task.name!r}: executor='sandbox' is not in this version yet")
        pump.executors.handler(task)
    if any(task.runs_in == "process" for task in wanted):
        pump.pool.start()
