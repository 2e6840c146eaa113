"""The demo's worker processes: start, kill and stop them."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

SLOTS = 8
LEASE = 2.0
"""Short, so that a killed worker's jobs run again while you watch. The default is 15 s."""
PATIENCE = 20.0
FOLDER = "HOLDFAST_DEMO"
"""The environment variable with the shop's folder."""


class DemoWorker:
    """One worker process."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name = name
        self.process = process
        self.killed = False

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    @property
    def exit_code(self) -> int | None:
        """Its exit code, `None` while it lives."""
        return self.process.returncode

    async def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self.killed = True
        self.process.kill()
        await self.process.wait()

    async def stop(self) -> None:
        """Stop the process gracefully; kill it when that takes too long."""
        if self.exit_code is None:
            self.process.terminate()
            try:
                await asyncio.wait_for(self.process.wait(), PATIENCE)
            except TimeoutError:
                self.process.kill()
                await self.process.wait()


async def start_workers(names: Sequence[str], folder: Path) -> list[DemoWorker]:
    """Start the processes. They may not have registered yet."""
    return [await _start(name, folder) for name in names]


async def _start(name: str, folder: Path) -> DemoWorker:
    options = ("--slots", str(SLOTS), "--lease", str(LEASE), "--name", name)
    command = (sys.executable, "-m", "holdfast", "worker", "holdfast.demo.shop:app", *options)
    environment = {**os.environ, FOLDER: str(folder)}
    with (folder / f"{name}.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, env=environment
        )
    return DemoWorker(name, process)


async def stop_workers(workers: Sequence[DemoWorker]) -> None:
    """Stop all processes."""
    await asyncio.gather(*(worker.stop() for worker in workers))
