"""A worker as a service of systemd, `Type=notify`: say when it is ready and stops, and that it lives."""

from __future__ import annotations

import asyncio

from ...app.hooks import HookEvent
from ...supervisor import ProcessesReport, WorkerProcesses
from ...telemetry.health.systemd import Systemd
from ...worker.worker import Worker


def tell_of_worker(systemd: Systemd, worker: Worker) -> None:
    """Tell systemd of one worker, if it asked for it: from a thread, so that a stuck event loop is seen as one."""
    if not systemd:
        return

    def started(event: HookEvent) -> None:
        systemd.tell("READY=1", f"STATUS=serves {', '.join(worker.queues)}")
        systemd.watch(lambda: worker.live().ok)

    worker.hooks.add("worker_started", started)
    worker.hooks.add("worker_stopping", lambda event: systemd.tell("STOPPING=1", "STATUS=drains"))


async def run_as_service(systemd: Systemd, processes: WorkerProcesses) -> ProcessesReport:
    """Run the processes to their end, and tell systemd of them, if it asked for it."""
    if not systemd:
        return await processes.run(signals=True)
    telling = asyncio.create_task(_tell_of_processes(systemd, processes))
    try:
        return await processes.run(signals=True)
    finally:
        telling.cancel()
        systemd.tell("STOPPING=1")


async def _tell_of_processes(systemd: Systemd, processes: WorkerProcesses) -> None:
    await processes.begun()
    systemd.tell("READY=1", f"STATUS={len(processes.pids)} processes serve {', '.join(processes.queues)}")
    while systemd.watchdog is not None:
        if not await processes.stuck():
            systemd.tell("WATCHDOG=1")
        await asyncio.sleep(systemd.watchdog / 2)
