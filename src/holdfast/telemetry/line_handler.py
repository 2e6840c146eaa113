"""The handler that the command line sets up: lines on stderr, for people or as JSON, many at once."""

from __future__ import annotations

import logging
import sys
from typing import Literal, TextIO

from ..log import LOGGER, is_plain
from .lines import LineFormat, format_of
from .outlet import Outlet

FormatName = Literal["human", "json"]


class LineHandler(logging.Handler):
    """Writes records as lines and never waits for their reader."""

    def __init__(self, form: LineFormat, stream: TextIO) -> None:
        super().__init__()
        self.form = form
        self.setFormatter(form)
        self._outlet = Outlet(stream, self._dropped)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._outlet.write(self.format(record) + "\n")
        except RecursionError:
            raise
        except Exception:
            self.handleError(record)

    def write(self, lines: str) -> None:
        """Write whole lines that are in its format already."""
        self.acquire()
        try:
            self._outlet.write(lines)
        finally:
            self.release()

    def flush(self) -> None:
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
