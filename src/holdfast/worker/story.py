"""What is known of one attempt, kept from its end until the store has heard of it, where a hook will be told."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from ..core.policy import COUNTER, Cause, Counters
from ..store.contract import Claimed, Complete, Failed, Released, Retried, Settlement
from ..task import Task

if TYPE_CHECKING:
    from .attempt import Attempt

ENDS = frozenset({"complete", "retry", "fail", "snooze", "release", "cancel", "lost"})
"""The hooks that hear how an attempt ended."""
WITH_ERROR = ("retry", "fail", "release", "lost")
COUNTED = ("retry", "fail", "release")


class Story(msgspec.Struct, frozen=True):
    """One attempt, as far as it has come."""

    claimed: Claimed
    handler: Task[Any, Any] | None = None
    ran: float | None = None
    error: BaseException | None = None
    value: Any = UNSET
    """What the handler returned, if it did so in this process."""

    def fields(self, name: str, entry: Settlement | None) -> dict[str, Any]:
        """Return what a hook of this name is told of it, beside who it is."""
        known: dict[str, Any] = {"task": self.claimed.task, "ran": self.ran, "waited": _waited(self.claimed)}
        known["counters"] = _counters(self.claimed, entry if name in COUNTED else None)
        if name in WITH_ERROR and not isinstance(self.error, asyncio.CancelledError):
            known["error"] = self.error
        if name == "complete" and isinstance(entry, Complete) and entry.then is None:
            known["result"] = self._result(entry)
        return known

    def _result(self, entry: Complete) -> Any:
        if self.value is not UNSET:
            return self.value
        try:
            return None if self.handler is None else self.handler.decode_result(entry.result)
        except Exception:
            return None  # a sandbox may send anything


def story_of(attempt: Attempt) -> Story:
    """Return what is known of an attempt, which may still run."""
    return Story(attempt.claimed, attempt.handler, attempt.ran, attempt.error, attempt.value)


def _waited(claimed: Claimed) -> float:
    return max(0, claimed.claimed_at_ms - max(claimed.run_at_ms, claimed.enqueued_at_ms)) / 1000


def _counters(claimed: Claimed, entry: Settlement | None) -> Counters:
    """Return the counters of the claim, and what this end adds."""
    cause = entry.cause if isinstance(entry, Retried | Failed | Released) else None
    name = COUNTER.get(Cause.FAILURE if cause is Cause.PERMANENT else cause) if cause is not None else None
    if name is None:
        return claimed.counters
    return msgspec.structs.replace(claimed.counters, **{name: getattr(claimed.counters, name) + 1})
