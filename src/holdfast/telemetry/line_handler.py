"""The handler that the command line sets up: lines on stderr, for people or as JSON, many at once.

A write wakes whoever reads, which costs more than the lines of a turn do. So under load the lines of several turns are
written together.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from typing import Literal, TextIO

from ..log import LOGGER, is_plain
from .lines import LineFormat, format_of
from .outlet import Outlet

FormatName = Literal["human", "json"]
JOINED = 0.05
"""Seconds for which lines wait for those of the next turns, when others were written less than that before."""
MOST_JOINED = 32 * 1024
"""Characters that wait at most: with those of one more turn, an empty pipe of Linux takes them as a whole."""


class LineHandler(logging.Handler):
    """Writes records as lines and never waits for their reader."""

    def __init__(self, form: LineFormat, stream: TextIO) -> None:
        super().__init__()
        self.form = form
        self.setFormatter(form)
        self.stream = stream
        """Where lines go, by the name that `logging.StreamHandler` has for it."""
        self._outlet = Outlet(stream, self._dropped)
        self._waiting: list[str] = []
        """Lines that wait for others."""
        self._size = 0
        self._timed_by: asyncio.AbstractEventLoop | None = None
        """The event loop that will write them."""
        self._written_at = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._write(self.format(record) + "\n")
        except RecursionError:
            raise
        except Exception:
            self.handleError(record)

    def write(self, lines: str, *, at_once: bool = True) -> None:
        """Write whole lines that are in its format already, now or, in an event loop, with others that follow soon."""
        self.acquire()
        try:
            if at_once or self._size + len(lines) > MOST_JOINED or not self._wait():
                self._write(lines)
            else:
                self._waiting.append(lines)
                self._size += len(lines)
        finally:
            self.release()

    def _wait(self) -> bool:
        """Return whether lines may wait for others, and see to it that they do not for long."""
        left = self._written_at + JOINED - time.monotonic()
        if left <= 0:
            return False
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return False
        if self._timed_by is not loop:
            loop.call_later(left, self._write_waiting)
            self._timed_by = loop
        return True

    def _write(self, lines: str) -> None:
        """Write these lines behind those that wait."""
        self._waiting.append(lines)
        lines, self._waiting, self._size = "".join(self._waiting), [], 0
        self._written_at = time.monotonic()
        self._outlet.write(lines)

    def _write_waiting(self) -> None:
        self.acquire()
        try:
            self._timed_by = None
            if self._waiting:
                self._write("")
        finally:
            self.release()

    def flush(self) -> None:
        self._write_waiting()
        self._outlet.flush()

    def _dropped(self, count: int) -> str:
        told = f"{count} lines were not written, as whoever reads this log is slower than the worker"
        return self.form.text(logging.WARNING, LOGGER, "lines_dropped", told)


def log_to_stderr(level: str, form: FormatName) -> None:
    """Log to stderr from this level on, unless the program has set up its logs already."""
    logging.basicConfig(level=level, handlers=[LineHandler(format_of(form), sys.stderr)])


def sole_handler(logger: logging.Logger) -> LineHandler | None:
    """Return our handler, if it is the only one that records of this logger reach, and nothing looks at them before."""
    found: list[logging.Handler] = []
    above: logging.Logger | None = logger
    while above is not None:
        found += above.handlers
        above = above.parent if above.propagate else None
    if len(found) != 1 or not isinstance(found[0], LineHandler) or found[0].filters or not is_plain(logger):
        return None
    return found[0] if found[0].level <= logging.INFO else None
