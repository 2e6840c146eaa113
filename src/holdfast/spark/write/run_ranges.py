"""Sets of run numbers, small for a million runs: stores number the runs of a bulk enqueue consecutively."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager

RunRange = tuple[int, int]
"""The first and the last of consecutive runs."""


def run_ranges(runs: Iterable[int]) -> list[RunRange]:
    """Return the runs as ranges, in order."""
    found: list[RunRange] = []
    ordered = sorted(runs)
    if ordered and ordered == list(range(ordered[0], ordered[0] + len(ordered))):
        return [(ordered[0], ordered[-1])]
    for run in ordered:
        if found and run <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(run, found[-1][1]))
        else:
            found.append((run, run))
    return found


def merge_ranges(parts: Iterable[Sequence[RunRange]]) -> list[RunRange]:
    """Return several lists of ranges as one, in order."""
    found: list[RunRange] = []
    for first, last in sorted((first, last) for part in parts for first, last in part):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found


def without_ranges(ranges: Sequence[RunRange], others: Sequence[RunRange]) -> list[RunRange]:
    """Return the ranges without the runs of the others. Both are in order."""
    found: list[RunRange] = []
    for first, last in ranges:
        for start, end in others[max(0, bisect_right(others, (first, 0)) - 1) :]:
            if start > last:
                break
            if start > first:
                found.append((first, start - 1))
            first = max(first, end + 1)
        if first <= last:
            found.append((first, last))
    return found


class OpenRuns:
    """The runs that are not finished yet, one bit for each; `len()` is how many are left."""

    def __init__(self, parts: Sequence[RunRange]) -> None:
        self._starts = [first for first, _ in parts]
        self._ends = [last for _, last in parts]
        self._offsets = [0]
        for first, last in parts:
            self._offsets.append(self._offsets[-1] + last - first + 1)
        self._left = self._offsets[-1]
        self._finished = bytearray((self._left + 7) // 8)
        self._taken = bytearray(len(self._finished))

    def __len__(self) -> int:
        return self._left

    def __contains__(self, run: int) -> bool:
        bit = self._bit(run)
        return bit is not None and not self._finished[bit >> 3] >> (bit & 7) & 1

    @property
    def total(self) -> int:
        """How many there were at first."""
        return self._offsets[-1]

    def had(self, run: int) -> bool:
        """Return whether a run was among them at first."""
        return self._bit(run) is not None

    def discard(self, run: int) -> bool:
        """Remove a finished run; return whether it was among those left."""
        bit = self._bit(run)
        if bit is None or self._finished[bit >> 3] >> (bit & 7) & 1:
            return False
        self._finished[bit >> 3] |= 1 << (bit & 7)
        self._left -= 1
        return True

    def take_finished(self, but: Collection[int] = ()) -> list[RunRange]:
        """Return the runs that are finished and were not taken before, without those that are held back."""
        found: list[int] = []
        for place, (finished, taken) in enumerate(zip(self._finished, self._taken, strict=True)):
            if finished == taken:
                continue
            for bit in range(place * 8, min(place * 8 + 8, self.total)):
                run = self._run(bit)
                if (finished & ~taken) >> (bit & 7) & 1 and run not in but:
                    self._taken[place] |= 1 << (bit & 7)
                    found.append(run)
        return run_ranges(found)

    @contextmanager
    def recounted(self) -> Iterator[Callable[[int], None]]:
        """Yield a function to call for each run that is still open; after the block, only those are left."""
        finished = bytearray(b"\xff" * len(self._finished))
        left = 0

        def is_left(run: int) -> None:
            nonlocal left
            bit = self._bit(run)
            if bit is not None and run in self and finished[bit >> 3] >> (bit & 7) & 1:
                finished[bit >> 3] &= ~(1 << (bit & 7))
                left += 1

        yield is_left
        self._finished, self._left = finished, left

    def _bit(self, run: int) -> int | None:
        index = bisect_right(self._starts, run) - 1
        if index < 0 or run > self._ends[index]:
            return None
        return self._offsets[index] + run - self._starts[index]

    def _run(self, bit: int) -> int:
        index = bisect_right(self._offsets, bit) - 1
        return self._starts[index] + bit - self._offsets[index]
