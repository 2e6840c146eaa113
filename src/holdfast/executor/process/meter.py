"""The meter: what a sandbox uses, looked at from outside, beside the kernel's own limits."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from contextlib import suppress

from ...core.sandbox import Sandbox
from .kernel import Consumed, consumed, limit_cpu
from .process_tree import is_there, kill_tree, marked

log = logging.getLogger("holdfast")
EVERY, SHORTEST = 0.25, 0.02
"""Seconds between two looks, and when processor time is nearly used up."""
RESTING = 0.1
"""The share of a processor that a process may have between its jobs, for its own watch on the lease."""
THREADS = 1000
"""More than this at once are an attack."""
TRIES = 5


class Meter:
    """Ends the process of a sandbox that uses more than it may, from the start of its first job to its own end.

    What goes on after a job has ended is bounded, too; `discard` then ends the process, as no job is to blame.
    """

    def __init__(self, pid: int, sandbox: Sandbox, mark: int, discard: Callable[[], None]) -> None:
        self._pid = pid
        self._sandbox = sandbox
        self._mark = mark
        self._discard = discard
        self._task: asyncio.Task[None] | None = None
        self._at_work = False
        self.over = ""
        """What it had too much of, once it was ended for that."""

    def start(self) -> None:
        """Begin to watch a job, which has its own processor time beyond what the process has used so far."""
        self.stop()
        self._at_work = True
        self._task = asyncio.get_running_loop().create_task(self._watch())

    def rest(self) -> None:
        """Note that no job is in the process."""
        self._at_work = False

    def stop(self) -> None:
        """Stop watching."""
        if self._task is not None:
            self._task.cancel()

    async def _watch(self) -> None:
        try:
            over = await self._too_much_at_last()
        except (FileNotFoundError, ProcessLookupError):
            return  # the process is gone, and its job hears of that
        except (OSError, ValueError) as error:
            over = f"what it uses cannot be limited: {error}"
        if self._at_work:
            self.over = over
            kill_tree(self._pid, self._mark)
        else:
            log.error("sandbox_over_limit: process %d is ended, though its job was over: %s", self._pid, over)
            self._discard()

    async def _too_much_at_last(self) -> str:
        """Return what it had too much of, once it had."""
        spent, before = 0.0, 0.0
        if self._sandbox.cpu_seconds is not None:
            limit_cpu(self._pid, self._sandbox.cpu_seconds)
            before = self._look()[0].cpu
        while True:
            pause = self._pause(spent)
            await asyncio.sleep(pause)
            now, others = self._look()
            used = max(0.0, now.cpu - before)  # it is less when a child has ended and was not waited for
            before = now.cpu
            spent += used if self._at_work or used > RESTING * pause else 0.0
            if over := self._too_much(spent, now.threads, others):
                return over

    def _look(self) -> tuple[Consumed, int]:
        """Return what the process and those that it started have taken, and how many of them live.

        Once more when one goes meanwhile: its time is in its parent's then, and might be counted twice, or not at all.
        """
        for _ in range(TRIES):
            others = [each for each in marked(self._mark, dead=True) if each.pid != self._pid] if self._mark else []
            everybody = [consumed(self._pid)]
            for known in others:
                with suppress(FileNotFoundError, ProcessLookupError):
                    everybody.append(consumed(known.pid))
            if all(is_there(known) for known in others):
                break
        cpu, threads = sum(each.cpu for each in everybody), sum(each.threads for each in everybody)
        return Consumed(cpu, threads, alive=True), sum(each.alive for each in everybody[1:])

    def _pause(self, spent: float) -> float:
        """Return how long to look away: no longer than it takes to use up what is left on all processors."""
        if self._sandbox.cpu_seconds is None or not self._at_work:
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
