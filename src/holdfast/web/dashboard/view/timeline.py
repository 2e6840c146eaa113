"""The attempts of one run, from its events: how long each waited, how long it ran, where, and how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ....core.event import Event
from ....core.state import State

MOST_ATTEMPTS = 50
"""So many attempts are drawn: the latest."""
ENDS = {
    "complete": ("completed", "completed"),
    "retry": ("will be tried again", "waiting"),
    "fail": ("failed", "failed"),
    "snooze": ("snoozed", "scheduled"),
    "release": ("handed back", "cancelled"),
    "cancel": ("cancelled", "cancelled"),
    "reap": ("worker vanished", "failed"),
    "delete": ("deleted", "cancelled"),
}
"""What each transition out of `active` says of the attempt, and the colour of its bar."""


@dataclass(frozen=True)
class AttemptBar:
    """One attempt on the common axis of time."""

    number: int
    ready_ms: int
    """From when on it could have been claimed, or waited for its time."""
    began_ms: int | None = None
    ended_ms: int | None = None
    worker: str | None = None
    outcome: str = ""
    colour: str = "active"
    cause: str | None = None
    error_type: str | None = None

    @property
    def wait_ms(self) -> int | None:
        """How long it waited, its back-off included."""
        return None if self.began_ms is None else max(0, self.began_ms - self.ready_ms)

    def ran_ms(self, now_ms: int) -> int | None:
        """How long it ran, or has run until now."""
        return None if self.began_ms is None else max(0, (self.ended_ms or now_ms) - self.began_ms)


@dataclass(frozen=True)
class Timeline:
    """All attempts of a run, and the stretch of time that they cover."""

    bars: tuple[AttemptBar, ...]
    first_ms: int
    last_ms: int
    left_out: int = 0
    """Attempts before those, which are not drawn."""


def timeline(events: Sequence[Event], run: int, now_ms: int) -> Timeline | None:
    """Return the attempts of a run; `None` when the log has nothing of it any more."""
    mine = [event for event in events if event.run == run]
    if not mine:
        return None
    bars: list[AttemptBar] = []
    current = AttemptBar(number=0, ready_ms=mine[0].at_ms)
    for event in mine:
        if event.transition == "claim":
            current = replace(
                current, number=event.attempt, began_ms=event.at_ms, worker=event.worker, outcome="running"
            )
        elif event.transition in ENDS and current.began_ms is not None:
            bars.append(_ended(current, event))
            current = AttemptBar(number=0, ready_ms=event.at_ms)
        elif event.transition in ENDS:
            current = replace(current, outcome=ENDS[event.transition][0])
    last = mine[-1]
    if last.state is not None and not State(last.state).finished:
        waiting = current.began_ms is None
        bars.append(replace(current, outcome=str(last.state) if waiting else "running", colour=str(last.state)))
    end = now_ms if last.state is not None and not State(last.state).finished else last.at_ms
    shown = tuple(bars[-MOST_ATTEMPTS:])
    first = shown[0].ready_ms if shown else mine[0].at_ms
    return Timeline(shown, first, max(end, first + 1), len(bars) - len(shown))


def _ended(bar: AttemptBar, event: Event) -> AttemptBar:
    outcome, colour = ENDS[event.transition]
    return replace(
        bar, ended_ms=event.at_ms, outcome=outcome, colour=colour, cause=event.cause, error_type=event.error_type
    )
