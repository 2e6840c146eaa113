"""The meter: what a sandbox uses, looked at from outside, beside the kernel's own limits."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress

from ...core.sandbox import Sandbox
from .kernel import Consumed, consumed, limit_cpu
from .tree import descendants, kill_tree

EVERY, SHORTEST = 0.25, 0.02
"""Seconds between two looks, and when processor time is nearly used up."""
THREADS = 1000
"""More than this at once are an attack."""


class Meter:
    """Ends the process of a sandbox that uses more than it may, from the start of a job to its end."""

    def __init__(self, pid: int, sandbox: Sandbox) -> None:
        self._pid = pid
        self._sandbox = sandbox
        self._task: asyncio.Task[None] | None = None
        self.over = ""
        """What it had too much of, once it was ended for that."""

    def start(self) -> None:
        """A job has its processor time, beyond what the process has had so far, its processes and its threads."""
        self.stop()
        self._task = asyncio.get_running_loop().create_task(self._watch())

    def stop(self) -> None:
        """Nobody looks any more."""
        if self._task is not None:
            self._task.cancel()

    async def _watch(self) -> None:
        try:
            spent = before = 0.0
            if self._sandbox.cpu_seconds is not None:
                limit_cpu(self._pid, self._sandbox.cpu_seconds)
                before = self._look()[0].cpu
            while not self.over:
                await asyncio.sleep(self._pause(spent))
                now, others = self._look()
                spent += max(0.0, now.cpu - before)  # it is less when a child has ended that nobody waits for
                before = now.cpu
                self.over = self._too_much(spent, now.threads, others)
        except (FileNotFoundError, ProcessLookupError):
            return  # the process is gone, and its job hears of that
        except OSError as error:
            self.over = f"what it uses cannot be limited: {error}"
        kill_tree(self._pid)

    def _look(self) -> tuple[Consumed, int]:
        """Return what the process and those below it have taken, and how many those are."""
        cpu, threads = consumed(self._pid)
        others = descendants(self._pid) if self._sandbox.subprocess else []
        for known in others:
            with suppress(FileNotFoundError, ProcessLookupError):  # it ended just now
                its = consumed(known.pid)
                cpu, threads = cpu + its.cpu, threads + its.threads
        return Consumed(cpu, threads), len(others)

    def _pause(self, spent: float) -> float:
        """Return how long to look away: no longer than it takes to use up what is left on all processors."""
        if self._sandbox.cpu_seconds is None:
            return EVERY
        left = (self._sandbox.cpu_seconds - spent) / (os.cpu_count() or 1)
        return min(EVERY, max(SHORTEST, left))

    def _too_much(self, spent: float, threads: int, others: int) -> str:
        if self._sandbox.cpu_seconds is not None and spent > self._sandbox.cpu_seconds:
            return over_cpu(self._sandbox)
        if others > self._sandbox.processes:
            return f"it had more than the {self._sandbox.processes} processes that its sandbox allows"
        return f"it had more than {THREADS} threads" if threads > THREADS else ""

    def why(self, code: int) -> str:
        """Return what the process had too much of, when it ended with this code."""
        return self.over or (over_cpu(self._sandbox) if code == -signal.SIGXCPU else "")


def over_cpu(sandbox: Sandbox) -> str:
    """Return what is told of a sandbox that used up its processor time."""
    return f"it used more than the {sandbox.cpu_seconds:g} s of processor time that its sandbox allows"
