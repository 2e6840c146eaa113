"""What the handlers in a process print, as lines of the worker's log: they begin no line of their own there."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable

from ...core.visible import visible
from ...log import LOGGER, target
from ...telemetry.context import fields_of_claimed
from ...telemetry.line_handler import sole_handler
from .job import ProcessJob
from .log_relay import MOST_LINE
from .spawn import STREAMS

log = logging.getLogger("holdfast")
AT_ONCE = 8192
"""How much is read at once, so that a handler that prints much does not hold up the worker: it waits itself."""
MOST_LEFT = 65536
"""How much of it a pipe may hold, and is read when a job ends."""


class HandlerOutput:
    """Reads what a process prints. `job` returns the job that runs there, if it is the only one."""

    def __init__(self, job: Callable[[], ProcessJob | None]) -> None:
        self._job = job
        self._streams: list[_Stream] = []

    def open(self, output: tuple[int, ...]) -> None:
        """Begin to read from these descriptors."""
        self._streams = [_Stream(fd, name, self._job) for fd, name in zip(output, STREAMS, strict=False)]

    def read(self) -> None:
        """Read what was printed until now, as the job that printed it is about to end."""
        for each in self._streams:
            each.read_all()

    def close(self) -> None:
        """Read the rest, and no more."""
        for each in self._streams:
            each.read_all()
            each.close()
        self._streams = []


class _Stream:
    """One stream of a process."""

    def __init__(self, fd: int, name: str, job: Callable[[], ProcessJob | None]) -> None:
        self._fd, self._name, self._job = fd, name, job
        self._begun = b""
        """A line whose end was not read yet."""
        self._loop = asyncio.get_running_loop()
        os.set_blocking(fd, False)
        self._loop.add_reader(fd, self._read)

    def _read(self) -> int:
        """Log whole lines of what there is; return how much there was."""
        try:
            found = os.read(self._fd, AT_ONCE)
        except BlockingIOError:
            return 0
        except OSError:
            found = b""
        if not found:
            self._loop.remove_reader(self._fd)  # it is at its end, and would be told over and over
        *lines, self._begun = (self._begun + found).split(b"\n")
        for line in lines:
            self._log(line)
        if len(self._begun) > MOST_LINE:
            self._log_rest()
        return len(found)

    def read_all(self) -> None:
        """Log all that there is."""
        left = MOST_LEFT
        while left > 0 and (size := self._read()):
            left -= size
        self._log_rest()

    def _log_rest(self) -> None:
        if self._begun:
            line, self._begun = self._begun, b""
            self._log(line)

    def _log(self, line: bytes) -> None:
        text = visible(line.removesuffix(b"\r").decode("utf-8", "backslashreplace")[:MOST_LINE])
        if not text:
            return
        job, extra = self._job(), dict[str, object](stream=self._name)
        where = self._name
        if job is not None:
            extra |= {"worker": job.worker, **fields_of_claimed(job.claimed, job.trace)}
            where = f"{job.claimed.lease.queue}/{job.claimed.lease.id} {self._name}"
        if log.isEnabledFor(logging.INFO):
            log.info("handler_output: %s: %s", where, text, extra=extra)
        else:
            self._show(f"{where}: {text}")

    def _show(self, told: str) -> None:
        """Write a line that the log's level would leave out: what was printed is not lost for that."""
        if (handler := sole_handler(target())) is not None:
            handler.write(handler.form.text(logging.INFO, LOGGER, "handler_output", told))
        else:
            print(visible(f"handler_output: {told}"), file=sys.stdout if self._name == "stdout" else sys.stderr)

    def close(self) -> None:
        """Read no more."""
        self._loop.remove_reader(self._fd)
        os.close(self._fd)
