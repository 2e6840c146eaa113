"""What happened within a second, by queue: enough for charts, and the same few bytes however much there was."""

from __future__ import annotations

from collections.abc import Iterable

from ...core.event import Event

Counts = dict[str, int]


class Pulse:
    """Counts events by queue and transition, and adds up waits and runs."""

    def __init__(self) -> None:
        self._queues: dict[str, Counts] = {}

    def add(self, events: Iterable[Event]) -> None:
        """Count these."""
        queues = self._queues
        for event in events:
            counts = queues.get(event.queue)
            if counts is None:
                counts = queues[event.queue] = {}
            name = event.transition
            counts[name] = counts.get(name, 0) + 1
            if event.wait_ms is not None:
                counts["wait_ms"] = counts.get("wait_ms", 0) + event.wait_ms
            if event.run_ms is not None:
                counts["run_ms"] = counts.get("run_ms", 0) + event.run_ms
                counts["runs"] = counts.get("runs", 0) + 1

    def taken(self) -> dict[str, Counts]:
        """Return what was counted since the last time, by queue."""
        found, self._queues = self._queues, {}
        return found
