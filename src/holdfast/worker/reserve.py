"""When a worker keeps its slots free for suspects, which may have little company or none.

A suspect goes to whoever holds few enough jobs; but a busy worker never does, unless it makes room. So it claims
nothing else for a while, until what runs has ended as far as that. That must do its other jobs little harm: it gives up
after a second, and goes on for four times as long before it tries again, for twice as long as before. And after it has
had suspects, others have their turn for as long. Pure: the caller tells the time.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

FIRST_PATIENCE = 1.0
"""How long a worker makes room at first, in seconds."""
IN_VAIN = 4
"""So many times as long it goes on as before, when making room was of no use."""
IN_A_ROW = 1.0
"""For so many seconds it takes one suspect after the other, while others wait."""


class Reserve:
    """What one worker knows of suspects."""

    def __init__(self) -> None:
        self._state: Literal["open", "keeping", "holding"] = "open"
        self._left: set[str] = set()
        """Queues with suspects for which the worker held too many jobs."""
        self._since = 0.0
        self._until = 0.0
        """Of a worker that makes room: when it gives up. Of one that has suspects: when it takes no more of them."""
        self._closed_until = 0.0
        self._patience = FIRST_PATIENCE

    @property
    def keeping(self) -> bool:
        """True while the worker claims suspects only, and makes room for them."""
        return self._state == "keeping"

    def queues(self, served: Sequence[str]) -> Sequence[str]:
        """Return which queues to ask, of those that are served."""
        return [queue for queue in served if queue in self._left] if self.keeping else served

    def wants(self, now: float) -> bool:
        """Return whether a suspect is welcome, if what runs leaves it the company that it may have."""
        if self._state == "open":
            return now >= self._closed_until
        return self._state == "keeping" or now < self._until

    def look(self, now: float, holding: bool) -> None:
        """Time has passed, and the worker holds a suspect or does not."""
        if holding and self._state != "holding":
            self._since = self._since if self.keeping else now
            self._state, self._until, self._patience = "holding", now + IN_A_ROW, FIRST_PATIENCE
        elif self._state == "holding" and not holding:
            self._state, self._closed_until = "open", 2 * now - self._since
        elif self.keeping and now >= self._until:
            self._state, self._closed_until = "open", now + IN_VAIN * self._patience
            self._patience *= 2

    def told(self, now: float, asked: Collection[str], left: Collection[str], less: bool) -> None:
        """A turn asked these queues, and suspects are left in some; `less`: no other jobs are left there."""
        self._left = (self._left - set(asked)) | set(left)
        if less and left and not self.keeping:  # nobody else waits for the worker
            self._closed_until, self._until = now, now + IN_A_ROW
        if self._state == "open" and self._left and now >= self._closed_until:
            self._state, self._since, self._until = "keeping", now, now + self._patience
        elif self.keeping and not self._left:
            self._state, self._patience = "open", FIRST_PATIENCE

    def seconds(self, now: float) -> float | None:
        """Return after how long there is something to look at, though nothing else happens; `None` for never."""
        return max(0.0, self._until - now) if self.keeping else None
