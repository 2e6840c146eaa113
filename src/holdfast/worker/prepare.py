"""Before a worker starts: whatever its queues need of processes can be had, or is refused in words."""

from __future__ import annotations

import inspect
import logging

from ..errors import ConfigError
from ..executor.sandbox.enter import missing
from .pump import Pump

log = logging.getLogger("holdfast")


def prepare(pump: Pump, queues: tuple[str, ...], lease_ms: int) -> None:
    """Every handler that runs in a process can be found there, and the processes for plain ones are starting."""
    tasks = [task for queue in queues for task in pump.registry.runners(queue)]
    wanted = [task for task in tasks if task.in_process]
    if shared := [task.name for task in tasks if not task.in_process and not inspect.iscoroutinefunction(task.fn)]:
        log.info(
            "%s share the interpreter lock with this worker: native code in them that holds it for longer than the "
            "lease (%g s) stops the heartbeats, and executor='process' does not",
            ", ".join(shared), lease_ms / 1000,
        )  # fmt: skip
    for task in wanted:
        if lacking := missing(task.setting("sandbox")) if task.runs_in == "sandbox" else []:
            raise ConfigError(
                f"task {task.name!r}: executor='sandbox' cannot be kept here: this system lacks {'; '.join(lacking)}"
            )
        pump.executors.handler(task)
    if any(task.runs_in == "process" for task in wanted):
        pump.pool.start()
