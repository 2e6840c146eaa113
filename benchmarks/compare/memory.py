"""What one worker holds after many jobs, beside what it held after few."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

from benchmarks.app import burst, fill_elsewhere, run
from benchmarks.script import say
from benchmarks.system import Place

EARLY, LATE = 20_000, 200_000


def memory(place: Place) -> None:
    """Its resident memory is said, early and late."""
    place = replace(place, jobs=LATE)
    fill_elsewhere(place)
    seen: dict[int, int] = {}
    count = itertools.count(1)

    def note() -> None:
        done = next(count)
        if done in (EARLY, LATE):
            seen[done] = resident_bytes()

    run(burst(place, note))
    say(metric="rss_early", value=seen[EARLY] / 1e6)
    say(metric="rss_late", value=seen[LATE] / 1e6)
    say(metric="rss_growth", value=seen[LATE] / seen[EARLY])


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096
