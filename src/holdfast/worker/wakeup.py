"""Whether wake-ups come: a poll that finds what nobody announced means that they are lost."""

from __future__ import annotations

import logging

from ..hook import Happening, Hooks

log = logging.getLogger("holdfast")


class WakeUps:
    """Judges the wake-ups of one worker."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self.polled = False
        """The turn under way is a poll: nobody rang."""
        self._deaf = False
        self._missed = 0

    def heard(self) -> None:
        """A wake-up came."""
        self._missed = 0
        if self._deaf:
            self._deaf = False
            self._hooks.tell(Happening(name="wakeup_restored"))

    def judge(self, found: bool) -> None:
        """A poll that finds a job which nobody announced means that wake-ups are lost; the next wake-up ends that."""
        self._missed = self._missed + 1 if self.polled and found else 0 if found else self._missed
        if self._missed >= 2 and not self._deaf:  # once may be a wake-up that is still on its way
            self._deaf = True
            log.warning("a poll found jobs that no wake-up had announced; until one comes, each may cost a poll")
            self._hooks.tell(Happening(name="wakeup_degraded"))
        self.polled = False
