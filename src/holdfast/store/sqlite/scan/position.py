"""Positions in the event log: an epoch, and the sequence of the last event that was read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ....errors import ConfigError

_LOG = (
    "SELECT (SELECT value FROM holdfast_meta WHERE name = 'epoch'), (SELECT min(seq) FROM holdfast_event),"
    " coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'holdfast_event'), 0)"
)


class LogSpan(NamedTuple):
    """The log as it is now: its epoch, its first event and its last."""

    epoch: str
    first: int
    newest: int

    def position(self, sequence: int) -> str:
        """Return the position after an event."""
        return f"{self.epoch}:{sequence}"

    def after(self, position: str | None) -> tuple[int, bool]:
        """Return the sequence after which to read on, and whether the position is of another log."""
        if position is None:
            return self.first - 1, False
        theirs, _, seq = position.partition(":")
        if not seq.isdigit():
            raise ConfigError(f"position {position!r} is not one that the event log gave")
        return (0, True) if theirs != self.epoch or int(seq) > self.newest else (int(seq), False)


def log_span(rows: Callable[[str], list[tuple[Any, ...]]]) -> LogSpan:
    """Return where the log begins and ends."""
    ((epoch, first, newest),) = rows(_LOG)
    return LogSpan(str(epoch), newest + 1 if first is None else first, newest)
