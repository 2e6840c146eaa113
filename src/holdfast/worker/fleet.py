"""A fleet: several worker processes of one command, watched, replaced when they die, and stopped together."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Sequence

PIPE = "HOLDFAST_FLEET_PIPE"
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 30.0
STEADY = 60.0
"""A process that lived so long starts the pauses anew."""
USAGE = 2
"""The exit code of a process that was started wrongly, which another start would not cure."""
SKIPS_DRAIN = 2
_BY_SIGNAL = (-signal.SIGTERM, -signal.SIGINT, 128 + signal.SIGTERM, 128 + signal.SIGINT)


class Fleet:
    """Keeps `count` processes running until it is told to stop, or each has ended by itself.

    The processes are groups of their own, so that a Ctrl-C in a terminal reaches them once, through the
    fleet; and each holds the end of a pipe, so that it ends when the fleet itself is killed.
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
        self._pipe = -1

    async def run(self) -> int:
        """Returns when all processes have ended: 0, or the worst of their exit codes."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)
        self._pipe, alive = os.pipe()
        try:
            codes = await asyncio.gather(*(self._keep(number) for number in range(1, self._count + 1)))
        finally:
            os.close(self._pipe)
            os.close(alive)
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)
        return max(codes)

    async def _keep(self, number: int) -> int:
        """One process runs, and another in its place when it dies; return how the last one ended."""
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

    def _is_final(self, number: int, code: int, restarts: int) -> bool:
        gives_up = self._most_restarts is not None and restarts >= self._most_restarts
        if not (self._signals or code == USAGE or gives_up):
            return False
        self._say(f"worker process {number} {_ended(code)}, and is not started again")
        return True

    async def _child(self, number: int) -> int:
        """Return the exit code of one process, run to its end."""
        child = await asyncio.create_subprocess_exec(
            *self._command(number),
            stdin=asyncio.subprocess.DEVNULL,
            env={**os.environ, PIPE: str(self._pipe)},
            pass_fds=(self._pipe,),
            process_group=0,
        )
        self._children[number] = child
        for signalled in self._signals:
            self._pass_on(child, signalled)
        try:
            return await child.wait()
        finally:
            del self._children[number]

    def _on_signal(self, number: int) -> None:
        """The signal reaches every process; after the one that skips the drain, the next kills."""
        self._signals.append(number)
        self._told.set()
        for child in self._children.values():
            self._pass_on(child, number if len(self._signals) <= SKIPS_DRAIN else signal.SIGKILL)

    def _pass_on(self, child: asyncio.subprocess.Process, number: int) -> None:
        try:
            child.send_signal(number)
        except ProcessLookupError:
            pass  # it has ended, and `wait` is about to say so

    async def _is_told_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._told.wait()
        except TimeoutError:
            return False
        return True


def stop_with_parent(stop: Callable[[], None]) -> None:
    """In a process of a fleet, `stop` is called when the fleet is gone, however it went."""
    pipe = os.environ.pop(PIPE, None)
    if pipe is None:
        return
    number = int(pipe)
    os.set_inheritable(number, False)
    loop = asyncio.get_running_loop()

    def gone() -> None:
        loop.remove_reader(number)
        stop()

    loop.add_reader(number, gone)


def _ended(code: int) -> str:
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
