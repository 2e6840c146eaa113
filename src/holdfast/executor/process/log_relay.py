"""Log records of a process, relayed into its worker's log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...core.visible import indented, visible
from ...telemetry.context import fields_of_claimed
from . import frames

if TYPE_CHECKING:
    from .job import ProcessJob

MOST_NAME = 200
MOST_LINE = 16_000
"""What a line says at most, in characters; the rest of it is cut off."""


def repeat(line: frames.LogLine, job: ProcessJob | None = None, *, sandboxed: bool = False) -> None:
    """Log a process's line here, under the name of its logger and with the fields of the job that made it.

    It is one line, whatever the process wrote, and a traceback stands indented below it. No logger is made for it,
    as those stay for ever: a sandbox could have as many as it likes. What it logs under our own name is not ours.
    """
    name = visible(line.logger[:MOST_NAME])
    if sandboxed and name.partition(".")[0] == "holdfast":
        name = f"sandbox.{name}"
    logger = _nearest(name)
    if logger.isEnabledFor(line.level):
        fields = fields_of_claimed(job.claimed, job.trace) if job is not None else None
        # Without arguments, so that nothing in it is taken for a format.
        record = logger.makeRecord(name, line.level, "", 0, visible(line.message[:MOST_LINE]), (), None, extra=fields)
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
    """Sends log records to the worker as lines of its log; `current` returns the number of the job that logs."""

    def __init__(self, send: Callable[[frames.FromProcess], None], current: Callable[[], int]) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(message)s"))
        self._send = send
        self._current = current

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage()
            trace = self.format(record)[len(message) :].strip("\n")
            line = frames.LogLine(
                record.name[:MOST_NAME], record.levelno, message[:MOST_LINE], trace[-MOST_LINE:], self._current()
            )
            self._send(line)
        except Exception:  # as in any handler of `logging`: a bad record is told on stderr, and harms no job
            self.handleError(record)
