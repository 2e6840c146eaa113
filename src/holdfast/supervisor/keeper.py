"""The keeper: processes of one command, each replaced when it dies, and all stopped together."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from ..executor.process.spawn import search_path
from ..worker import Report
from .child import KEEPER
from .report_pipe import ReportPipe

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 30.0
STEADY = 60.0
"""A process that lived so long starts the pauses anew."""
UNSTARTED = 127
"""What shells say of a command that there is not."""
USAGE = 2
"""The exit code of a process that was started wrongly, which another start would not cure."""
STEPS = (signal.SIGTERM, signal.SIGINT)
"""The one that stops a worker, and the one that skips its drain: of two that are alike, the system may make one."""
_BY_SIGNAL = [code for number in STEPS for code in (-number, 128 + number)]


class ProcessesReport(msgspec.Struct, kw_only=True):
    """What worker processes did, all together."""

    did: Report = msgspec.field(default_factory=Report)
    """The sum of what those workers told that ended in order."""
    restarts: int = 0
    """How often one had to be started in the place of one that died."""
    unheard: int = 0
    """Processes that died before they told what they did."""
    code: int = 0
    """0 when all have ended well, else the worst of their exit codes."""

    def add(self, report: Report | None) -> None:
        """Add what one more process did."""
        if report is None:
            self.unheard += 1
            return
        for name in Report.__struct_fields__:
            value = getattr(report, name)
            if type(value) in (int, list):
                setattr(self.did, name, getattr(self.did, name) + value)


class Keeper:
    """Keep `count` processes running until told to stop, or each has ended by itself.

    The processes are groups of their own, so that a Ctrl-C in a terminal reaches them once, through the
    keeper; and each holds the end of a pipe, so that it ends when the keeper itself is killed.
    """

    def __init__(
        self,
        command: Callable[[int], Sequence[str]],
        count: int,
        say: Callable[[str], None],
        *,
        most_restarts: int | None = None,
    ) -> None:
        self._command = command
        self._count = count
        self._say = say
        self._most_restarts = most_restarts
        self._children: dict[int, asyncio.subprocess.Process] = {}
        self._signals: list[int] = []
        self._told = asyncio.Event()
        self._life = -1
        self.begun = [asyncio.Event() for _ in range(count)]
        """Set, for each of them, once a worker of it claims."""
        self.gave_up = asyncio.Event()
        """Set when one of them died and is not started again."""
        self.report = ProcessesReport()

    @property
    def pids(self) -> list[int]:
        """The processes that run now."""
        return [child.pid for child in self._children.values()]

    async def run(self) -> ProcessesReport:
        """Returns when all processes have ended."""
        self._life, alive = os.pipe()
        try:
            keeping = [self._keep(number) for number in range(1, self._count + 1)]
            self.report.code = max(await asyncio.gather(*keeping))
        finally:
            os.close(self._life)
            os.close(alive)
        return self.report

    async def _keep(self, number: int) -> int:
        """Run one process, and another when it dies; return how the last one ended."""
        restarts = 0
        while True:
            started = time.monotonic()
            code = await self._child(number)
            if code == 0 or (self._signals and code in _BY_SIGNAL):
                return 0
            restarts = 0 if time.monotonic() - started > STEADY else restarts
            if self._is_final(number, code, restarts):
                return USAGE if code == USAGE else 1
            pause = min(FIRST_PAUSE * 2**restarts, LONGEST_PAUSE)
            restarts += 1
            self._say(f"worker process {number} {_ended(code)}: starting another in {pause:g} s")
            if await self._is_told_within(pause):
                return 1
            self.report.restarts += 1

    def _is_final(self, number: int, code: int, restarts: int) -> bool:
        gives_up = self._most_restarts is not None and restarts >= self._most_restarts
        if not (self._signals or code == USAGE or gives_up):
            return False
        self.gave_up.set()
        self._say(f"worker process {number} {_ended(code)}, and is not started again")
        return True

    async def _child(self, number: int) -> int:
        """Return the exit code of one process, run to its end."""
        pipe = ReportPipe(self.begun[number - 1])
        try:
            child = await self._spawn(number, pipe)
        except OSError as error:  # for want of memory, processes or descriptors: it may be had later
            self._say(f"worker process {number} could not be started: {error}")
            pipe.close()
            return UNSTARTED
        try:
            self._children[number] = child
            for signalled in self._signals:
                _send(child, signalled)
            try:
                return await child.wait()
            except asyncio.CancelledError:
                _send(child, signal.SIGTERM)  # it drains, though this task waits no longer
                raise
            finally:
                del self._children[number]
        finally:
            pipe.close()
            self.report.add(pipe.report)

    async def _spawn(self, number: int, pipe: ReportPipe) -> asyncio.subprocess.Process:
        told = {"PYTHONPATH": os.pathsep.join(search_path()), KEEPER: f"{self._life},{pipe.write}"}
        try:
            return await asyncio.create_subprocess_exec(
                *self._command(number), stdin=asyncio.subprocess.DEVNULL, env={**os.environ, **told},
                pass_fds=(self._life, pipe.write), process_group=0,
            )  # fmt: skip
        finally:
            pipe.started()

    def stop(self, *, drain: bool = True) -> None:
        """Stop every process; without `drain`, it skips its drain."""
        for number in STEPS[len(self._signals) : 1 if drain else 2]:
            self._send_all(number)

    def kill(self) -> None:
        """Kill every process."""
        self._send_all(signal.SIGKILL)

    def _send_all(self, number: int) -> None:
        self._signals.append(number)
        self._told.set()
        for child in self._children.values():
            _send(child, number)

    async def _is_told_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._told.wait()
        except TimeoutError:
            return False
        return True


def _send(child: asyncio.subprocess.Process, number: int) -> None:
    with suppress(ProcessLookupError):  # it has ended, and `wait` is about to say so
        child.send_signal(number)


def _ended(code: int) -> str:
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
