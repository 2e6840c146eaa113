"""What health means: `live` is that the event loop moves, `ready` that the worker can take jobs."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

import msgspec

PULSE = 0.5
"""Seconds between two beats of an event loop, by which others see that it moves."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a worker at a moment. Times are in seconds."""

    worker: str
    moved_ago: float
    """Since its event loop last moved."""
    heard_ago: float | None = None
    """Since the store last answered; `None`: it has not yet."""
    has_session: bool = False
    is_draining: bool = False
    has_ended: bool = False
    lease: float = 15.0
    wedged_after: float = 60.0


class HealthReport(msgspec.Struct, frozen=True, kw_only=True):
    """Whether it is well, and why not."""

    ok: bool
    reasons: tuple[str, ...] = ()
    facts: dict[str, object] = {}

    def json(self) -> bytes:
        """Return the verdict as JSON."""
        told = {"status": "ok" if self.ok else "unavailable", "reasons": self.reasons, **self.facts}
        return msgspec.json.encode(told) + b"\n"


class Health(Protocol):
    """Something whose health can be asked, from any thread."""

    def live(self) -> HealthReport:
        """Return whether it moves: if not, only a restart helps."""

    def ready(self) -> HealthReport:
        """Return whether it takes jobs."""


def live(facts: Facts) -> HealthReport:
    """Return whether the event loop moves."""
    stuck = facts.moved_ago > facts.wedged_after
    return _report(facts, [f"the event loop has not moved for {facts.moved_ago:.0f} s"] if stuck else [])


def ready(facts: Facts) -> HealthReport:
    """Return whether the worker takes jobs: it has a session, the store answers, and nothing holds it up."""
    return _report(facts, [text for text in _troubles(facts) if text])


def _troubles(facts: Facts) -> list[str]:
    if facts.has_ended:
        return ["the worker has ended"]
    troubles = []
    stuck = facts.moved_ago if facts.moved_ago >= min(facts.lease, facts.wedged_after) else 0.0
    if facts.is_draining:
        troubles.append("the worker drains: it takes no more jobs")
    if facts.heard_ago is None:
        troubles.append("the store has not answered yet")
    elif facts.heard_ago - stuck >= facts.lease:  # a loop that stands still asks for nothing
        troubles.append(f"the store has not answered for {facts.heard_ago:.0f} s")
    elif not facts.has_session:
        troubles.append("the worker has no session: it was declared dead, and begins anew")
    if stuck:
        troubles.append(f"the event loop has not moved for {facts.moved_ago:.0f} s")
    return troubles


def _report(facts: Facts, reasons: list[str]) -> HealthReport:
    heard = None if facts.heard_ago is None else round(facts.heard_ago, 3)
    told = {"worker": facts.worker, "loop_moved_s": round(facts.moved_ago, 3), "store_heard_s": heard}
    return HealthReport(ok=not reasons, reasons=tuple(reasons), facts=told)


class LoopBeat:
    """Notes that an event loop moves; may be read from any thread."""

    def __init__(self) -> None:
        self._moved_at = time.monotonic()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def moved_ago(self) -> float:
        """Seconds since the loop last moved; it is never still for less than `PULSE`, which counts as nothing."""
        return max(0.0, time.monotonic() - self._moved_at - PULSE)

    def start(self) -> None:
        """Beat in the running loop."""
        self._moved_at = time.monotonic()
        self._timer = asyncio.get_running_loop().call_later(PULSE, self.start)

    def stop(self) -> None:
        """Beat no more."""
        if self._timer is not None:
            self._timer.cancel()
