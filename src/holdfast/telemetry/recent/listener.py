"""Who else wants what a follower reads: a log is read once, however many show it."""

from __future__ import annotations

from typing import Protocol

from ...store.contract import EventPage


class LogListener(Protocol):
    """Hears every page that a follower reads, in the order of the log."""

    @property
    def is_eager(self) -> bool:
        """True while somebody waits for each event: then the log is read often."""

    def hear(self, page: EventPage) -> None:
        """Take a page, which may be empty."""

    def skipped(self, page: EventPage) -> None:
        """Events were left out: more came than could be read. The page has the position from which it goes on."""

    def lost(self, why: str) -> None:
        """The log could not be read."""
