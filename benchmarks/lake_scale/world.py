"""The world that is simulated: how many queues, tenants and days, and random numbers that depend on nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Shares = NDArray[np.float64]

BURST = 64
"""Jobs come in bursts of one queue: somebody's import, a nightly run, a campaign."""
SHELF = 16_384
"""The lake keeps open rows by so many runs: a whole number of these a day, so that days can be copied."""
EVENTS_PER_JOB = 3.11
"""How many events a job has, on average: by counting."""
DAY_MS = 86_400_000
ORIGIN_MS = 1_735_689_600_000
"""The first day of the world: 1 January 2025."""
DELAYED = 50
"""Each so-manieth burst is of jobs that were enqueued up to a week ahead."""
LONGEST_DELAY_MS = 7 * DAY_MS
LONGEST_LIFE_MS = 4 * 3_600_000
"""From the time a job may run to its last event, however late that one is."""


@dataclass(frozen=True)
class World:
    """What the simulated log depends on."""

    seed: int = 1
    queues: int = 1000
    tenants: int = 10_000
    shelves_per_day: int = 5
    first_day: int = 0
    """Jobs of earlier days are left out: the log begins with this day."""

    @property
    def jobs_per_day(self) -> int:
        """How many jobs are enqueued each day."""
        return self.shelves_per_day * SHELF

    @property
    def events_per_day(self) -> float:
        """How many events there are each day, about."""
        return self.jobs_per_day * EVENTS_PER_JOB

    @property
    def gap_ms(self) -> float:
        """The time from one burst to the next, on average."""
        return DAY_MS * BURST / self.jobs_per_day

    @property
    def start_ms(self) -> int:
        """When the log begins."""
        return ORIGIN_MS + self.first_day * DAY_MS

    def window_ms(self, events: int) -> int:
        """Return how long it takes until so many events have happened."""
        return round(events / self.events_per_day * DAY_MS)

    def jobs_between(self, after_ms: int, upto_ms: int) -> Numbers:
        """Return every job that may have an event in this time."""
        soon = self._bursts(after_ms - LONGEST_LIFE_MS, upto_ms)
        ahead = self._bursts(after_ms - LONGEST_LIFE_MS - LONGEST_DELAY_MS, after_ms - LONGEST_LIFE_MS)
        bursts = np.concatenate([ahead[ahead % DELAYED == 0], soon])
        return (np.unique(bursts)[:, None] * BURST + np.arange(BURST)).ravel()

    def _bursts(self, after_ms: int, upto_ms: int) -> Numbers:
        least = self.first_day * self.jobs_per_day // BURST
        first = max(least, int((after_ms - ORIGIN_MS) // self.gap_ms) - 1)
        return np.arange(first, max(first, int((upto_ms - ORIGIN_MS) // self.gap_ms) + 1), dtype=np.int64)

    def hashed(self, numbers: Numbers, salt: int) -> NDArray[np.uint64]:
        """Return a random number for each number: the same one every time (SplitMix64)."""
        start = (self.seed * 0xD1B54A32D192ED03 + salt * 0x9E3779B97F4A7C15) % 2**64
        mixed = numbers.astype(np.uint64) * np.uint64(0xA0761D6478BD642F) + np.uint64(start)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return mixed ^ (mixed >> np.uint64(31))

    def uniform(self, numbers: Numbers, salt: int) -> Shares:
        """Return a random share for each number, at least 0 and below 1."""
        return (self.hashed(numbers, salt) >> np.uint64(11)) * 2.0**-53

    def below(self, numbers: Numbers, salt: int, bound: int) -> Numbers:
        """Return a random whole number below a bound for each number."""
        return (self.uniform(numbers, salt) * bound).astype(np.int64)
