"""The meter: what a sandbox uses, looked at from outside, beside the kernel's own limits."""

from __future__ import annotations

import asyncio
import signal

from ...core.sandbox import Sandbox
from .kernel import cpu_of, limit_cpu
from .tree import descendants, kill_tree

CPU_EVERY = 0.5
PROCESSES_EVERY = 0.25
"""Seconds between two looks."""


class Meter:
    """Ends the process of a sandbox that uses more than it may, from the start of a job to its end."""

    def __init__(self, pid: int, sandbox: Sandbox) -> None:
        self._pid = pid
        self._sandbox = sandbox
        self._tasks: list[asyncio.Task[None]] = []
        self.over = ""
        """What it had too much of, once it was ended for that."""

    def start(self) -> None:
        """A job has its processor time, beyond what the process has had so far, and its processes."""
        self.stop()
        loop = asyncio.get_running_loop()
        if self._sandbox.cpu_seconds is not None:
            try:
                most = limit_cpu(self._pid, self._sandbox.cpu_seconds)
            except OSError:
                return  # the process is gone, and its job hears of that
            self._tasks.append(loop.create_task(self._watch_cpu(most)))
        if self._sandbox.subprocess:
            self._tasks.append(loop.create_task(self._watch_processes()))

    def stop(self) -> None:
        """Nobody looks any more."""
        while self._tasks:
            self._tasks.pop().cancel()

    async def _watch_cpu(self, most: int) -> None:
        """A handler that does not heed SIGXCPU is killed."""
        while True:
            await asyncio.sleep(CPU_EVERY)
            try:
                used = cpu_of(self._pid)
            except OSError:
                return  # it is gone
            if used > most + 1:
                self._end(over_cpu(self._sandbox))
                return

    async def _watch_processes(self) -> None:
        """One that starts too many is killed, with all of them."""
        while True:
            await asyncio.sleep(PROCESSES_EVERY)
            if len(descendants(self._pid)) > self._sandbox.processes:
                self._end(f"it had more than the {self._sandbox.processes} processes that its sandbox allows")
                return

    def _end(self, why: str) -> None:
        self.over = why
        kill_tree(self._pid)

    def why(self, code: int) -> str:
        """Return what the process had too much of, when it ended with this code."""
        return self.over or (over_cpu(self._sandbox) if code == -signal.SIGXCPU else "")


def over_cpu(sandbox: Sandbox) -> str:
    """Return what is told of a sandbox that used up its processor time."""
    return f"it used more than the {sandbox.cpu_seconds:g} s of processor time that its sandbox allows"
