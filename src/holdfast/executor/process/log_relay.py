"""Log records of a process, relayed into its worker's log."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ...core.visible import indented, visible
from ...handler.job import _current
from . import frames

MOST_NAME = 200
MOST_LINE = 16_000
"""What a line says at most, in characters; the rest of it is cut off."""


def repeat(line: frames.LogLine) -> None:
    """Log a process's line here, under the name of its logger.

    It is one line, whatever the process wrote, and a traceback stands indented below it. No logger is made for it,
    as those stay for ever: a sandbox could have as many as it likes.
    """
    name = visible(line.logger[:MOST_NAME])
    logger = _nearest(name)
    if logger.isEnabledFor(line.level):
        record = logger.makeRecord(name, line.level, "", 0, "%s", (visible(line.message[:MOST_LINE]),), None)
        record.exc_text = indented(line.trace[-MOST_LINE:]) if line.trace else None
        logger.handle(record)


def _nearest(name: str) -> logging.Logger:
    """Return the logger of this name, or the nearest above it, whose level and handlers it would have."""
    known = logging.Logger.manager.loggerDict
    while name:
        if isinstance(found := known.get(name), logging.Logger):
            return found
        name = name.rpartition(".")[0]
    return logging.getLogger()


class LogForwarder(logging.Handler):
    """Sends log records to the worker as lines of its log."""

    def __init__(self, send: Callable[[frames.FromProcess], None]) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(message)s"))
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        try:
            job = _current.get()
            where = f" [{job.queue}/{job.id}]" if job is not None else ""
            message = record.getMessage()
            trace = self.format(record)[len(message) :].strip("\n")
            line = frames.LogLine(
                record.name[:MOST_NAME], record.levelno, message[:MOST_LINE] + where, trace[-MOST_LINE:]
            )
            self._send(line)
        except Exception:  # as in any handler of `logging`: a bad record is told on stderr, and harms no job
            self.handleError(record)
