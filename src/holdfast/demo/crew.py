"""The crew: worker processes that are started, killed and stopped."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

SLOTS = 8
LEASE = 2.0
"""Short, so that a killed worker's jobs come back while you watch. The default is 15 s."""
PATIENCE = 20.0
FOLDER = "HOLDFAST_DEMO"
"""The variable that tells the shop where it is."""


class Hand:
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
        """How it ended, `None` while it lives."""
        return self.process.returncode

    async def kill(self) -> None:
        """The process is gone, with no chance to say anything."""
        self.killed = True
        self.process.kill()
        await self.process.wait()

    async def stop(self) -> None:
        """The process has handed in what it held, or was killed after a while."""
        if self.exit_code is None:
            self.process.terminate()
            try:
                await asyncio.wait_for(self.process.wait(), PATIENCE)
            except TimeoutError:
                self.process.kill()
                await self.process.wait()


async def start(names: Sequence[str], folder: Path) -> list[Hand]:
    """The processes are started; they may not have registered yet."""
    return [await _start(name, folder) for name in names]


async def _start(name: str, folder: Path) -> Hand:
    options = ("--slots", str(SLOTS), "--lease", str(LEASE), "--name", name)
    command = (sys.executable, "-m", "holdfast", "worker", "holdfast.demo.shop:app", *options)
    environment = {**os.environ, FOLDER: str(folder)}
    with (folder / f"{name}.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, env=environment
        )
    return Hand(name, process)


async def stop(hands: Sequence[Hand]) -> None:
    """No process is left."""
    await asyncio.gather(*(hand.stop() for hand in hands))
