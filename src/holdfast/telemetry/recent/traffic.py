"""What happened in each second of the last minutes and in each minute of the last hours, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable

from .kind import COUNTED
from .spread import Buckets, merged, spread_of
from .view import Chart, Spread, SpreadChart, Step, Traffic

SECONDS = 300
"""Seconds that are kept one by one."""
MINUTES = 180
"""Minutes that are kept one by one."""
_SLACK = 60
STEP_MS: dict[Step, int] = {"second": 1000, "minute": 60_000}


class Slot:
    """One second, or one minute."""

    __slots__ = ("counts", "longest_run", "longest_wait", "runs", "waits")

    def __init__(self) -> None:
        self.counts = [0] * len(COUNTED)
        self.waits: Buckets = {}
        self.runs: Buckets = {}
        self.longest_wait: int | None = None
        self.longest_run: int | None = None

    @property
    def wait(self) -> Spread:
        """The waits in it."""
        return spread_of(self.waits, self.longest_wait)

    @property
    def run(self) -> Spread:
        """The runs in it."""
        return spread_of(self.runs, self.longest_run)

    def saw_wait(self, ms: int) -> None:
        """Take note of a wait that may be the longest."""
        self.longest_wait = ms if self.longest_wait is None else max(self.longest_wait, ms)

    def saw_run(self, ms: int) -> None:
        """Take note of a run that may be the longest."""
        self.longest_run = ms if self.longest_run is None else max(self.longest_run, ms)


class Ring:
    """The newest slots by their number: a second or a minute since the epoch. Those without events are not kept."""

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self.slots: dict[int, Slot] = {}

    def at(self, number: int, newest: int) -> Slot | None:
        """Return the slot of a number; `None` when it is too old."""
        if number <= newest - self.keep:
            return None
        slot = self.slots.get(number)
        if slot is None:
            if len(self.slots) >= self.keep + _SLACK:
                self.slots = {each: kept for each, kept in self.slots.items() if each > newest - self.keep}
            slot = self.slots[number] = Slot()
        return slot

    def between(self, first: int, last: int) -> list[Slot | None]:
        """Return slots by number, `None` for those in which nothing happened."""
        return [self.slots.get(number) for number in range(first, last + 1)]


class TrafficRecord:
    """One queue, one task, or all: its seconds and its minutes. A task has only minutes."""

    def __init__(self, *, seconds: bool = True) -> None:
        self.rings: dict[Step, Ring] = {"minute": Ring(MINUTES)}
        if seconds:
            self.rings["second"] = Ring(SECONDS)
        self.touched_s = 0

    def slots_of(self, second: int, newest_second: int) -> list[Slot]:
        """Return the slots that a second belongs to."""
        self.touched_s = max(self.touched_s, second)
        found = [
            ring.at(second // (STEP_MS[step] // 1000), newest_second // (STEP_MS[step] // 1000))
            for step, ring in self.rings.items()
        ]
        return [slot for slot in found if slot is not None]

    def traffic(self, first_s: int, last_s: int, seconds: float) -> Traffic:
        """Return the sum from one second to another; in whole minutes where the seconds are not kept any more."""
        step: Step = "second" if "second" in self.rings and last_s - first_s < SECONDS else "minute"
        per = STEP_MS[step] // 1000
        return summed(self.rings[step].between(first_s // per, last_s // per), seconds)

    def chart(self, step: Step, last_s: int, known_from_ms: int) -> Chart:
        """Return a column for each second or minute that is kept, up to a second."""
        step = step if step in self.rings else "minute"
        ring, per = self.rings[step], STEP_MS[step]
        last = last_s * 1000 // per
        first = last - ring.keep + 1
        slots = ring.between(first, last)
        return Chart(
            begin_ms=first * per,
            step_ms=per,
            known_from_ms=known_from_ms,
            **{name: [slot.counts[at] if slot else 0 for slot in slots] for at, name in enumerate(COUNTED)},
            wait=_durations([slot.wait if slot else Spread() for slot in slots]),
            run=_durations([slot.run if slot else Spread() for slot in slots]),
        )


def _durations(spreads: list[Spread]) -> SpreadChart:
    return SpreadChart(
        p50_ms=[each.p50_ms for each in spreads],
        p95_ms=[each.p95_ms for each in spreads],
        max_ms=[each.max_ms for each in spreads],
    )


def summed(slots: Iterable[Slot | None], seconds: float) -> Traffic:
    """Return the sum of slots, as what happened within so many seconds."""
    found = [slot for slot in slots if slot is not None]
    counts = {name: sum(slot.counts[at] for slot in found) for at, name in enumerate(COUNTED)}
    waits = [slot.longest_wait for slot in found if slot.longest_wait is not None]
    runs = [slot.longest_run for slot in found if slot.longest_run is not None]
    return Traffic(
        seconds=seconds,
        wait=spread_of(merged(slot.waits for slot in found), max(waits, default=None)),
        run=spread_of(merged(slot.runs for slot in found), max(runs, default=None)),
        **counts,
    )
