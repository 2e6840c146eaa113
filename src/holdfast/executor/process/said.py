"""What a process logs, as lines of its worker's log."""

from __future__ import annotations

import logging

from ...core.visible import indented, visible
from . import wire

MOST_NAME = 200
MOST_LINE = 16_000
"""What a line says at most, in characters; the rest of it is cut off."""


def repeat(said: wire.Said) -> None:
    """The line is in this process's log under its own logger's name.

    It is one line, whatever the process wrote, and a traceback stands indented below it. Nobody is made a logger for
    it, as those stay for ever: a sandbox could have as many as it likes.
    """
    name = visible(said.logger[:MOST_NAME])
    logger = _nearest(name)
    if logger.isEnabledFor(said.level):
        record = logger.makeRecord(name, said.level, "", 0, "%s", (visible(said.message[:MOST_LINE]),), None)
        record.exc_text = indented(said.trace[-MOST_LINE:]) if said.trace else None
        logger.handle(record)


def _nearest(name: str) -> logging.Logger:
    """Return the logger of this name, or the nearest above it, whose level and handlers it would have."""
    known = logging.Logger.manager.loggerDict
    while name:
        if isinstance(found := known.get(name), logging.Logger):
            return found
        name = name.rpartition(".")[0]
    return logging.getLogger()
