"""Wake-ups: what makes a worker ask the store again, and whether the store's own wake-ups arrive."""

from __future__ import annotations

import asyncio
import logging

from ...app.hooks import HookEvent, Hooks
from ...store.deadlines import Deadlines
from ...store.prompt import Prompt

log = logging.getLogger("holdfast")


class Alarm:
    """A bell for one sleeper, which remembers that it was rung until the sleeper has waited for it."""

    def __init__(self) -> None:
        self._rung = False
        self._held = False
        self._sleeper: Prompt[None] | None = None
        self._deadlines: Deadlines | None = None

    def ring(self) -> None:
        """Wake the sleeper; if there is none, the next wait returns at once."""
        self._rung = True
        if self._sleeper is not None and not self._held:
            sleeper, self._sleeper = self._sleeper, None
            sleeper.loop.call_soon(sleeper.tell, None)

    def hold(self) -> bool:
        """Keep the sleeper asleep while the bell is rung, until it is let go; False when it is held already."""
        was, self._held = self._held, True
        return not was

    def let_go(self) -> None:
        """Wake the sleeper if it was rung meanwhile: it goes on within this call, where no task runs."""
        self._held = False
        if self._rung and self._sleeper is not None:
            sleeper, self._sleeper = self._sleeper, None
            sleeper.tell(None)

    async def wait(self, seconds: float | None = None) -> bool:
        """Return when it is rung (True), or after so many seconds (False)."""
        if not self._rung:
            loop = asyncio.get_running_loop()
            if self._deadlines is None or self._deadlines.loop is not loop:
                self._deadlines = Deadlines(loop)
            sleeper = self._sleeper = Prompt[None](loop)
            if seconds is not None:
                self._deadlines.add(sleeper, max(0.0, seconds))
            try:
                await sleeper
            finally:
                self._deadlines.discard(sleeper)
                self._sleeper = None
        rung, self._rung = self._rung, False
        return rung


class WakeUps:
    """The bell of a worker's pump, and a check that the store's wake-ups reach it."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self.alarm = Alarm()
        """Rung when there is something to do for the pump."""
        self.called = False
        """The store is to be asked once more, even with no slot free."""
        self.polled = False
        """The pending turn is a poll: no wake-up caused it."""
        self._degraded = False
        self._missed = 0

    def ask_again(self) -> None:
        """Have the pump ask the store: what could not be claimed a moment ago perhaps can be by now."""
        self.called = True
        self.alarm.ring()

    def ask_again_in(self, seconds: float) -> None:
        """Have the pump ask the store after so many seconds."""
        asyncio.get_running_loop().call_later(seconds, self.ask_again)

    def heard(self) -> None:
        """Note that a wake-up of the store arrived."""
        self._missed = 0
        if self._degraded:
            self._degraded = False
            self._hooks.tell(HookEvent(name="wakeup_restored"))

    def judge(self, found: bool) -> None:
        """Note whether a turn found a job. A poll that finds one unannounced means that wake-ups are lost."""
        self._missed = self._missed + 1 if self.polled and found else 0 if found else self._missed
        if self._missed >= 2 and not self._degraded:  # a single one may be a wake-up that is still on its way
            self._degraded = True
            log.warning("wakeup_degraded: polls found jobs that no wake-up had announced; each may wait for a poll")
            self._hooks.tell(HookEvent(name="wakeup_degraded"))
        self.polled = False
