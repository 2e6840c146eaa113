"""Sets of run numbers that stay small for a million runs: stores number the runs of a bulk enqueue in a row."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

Span = tuple[int, int]
"""The first and the last of some runs in a row."""


def spans(runs: Iterable[int]) -> list[Span]:
    """Return the runs as spans, in order."""
    found: list[Span] = []
    for run in sorted(runs):
        if found and run <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(run, found[-1][1]))
        else:
            found.append((run, run))
    return found


def merged(parts: Iterable[Sequence[Span]]) -> list[Span]:
    """Return several lists of spans as one, in order."""
    found: list[Span] = []
    for first, last in sorted((first, last) for part in parts for first, last in part):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found


class Outstanding:
    """The runs that are not over yet: one bit for each. Its length is how many are left."""

    def __init__(self, parts: Sequence[Span]) -> None:
        self._starts = [first for first, _ in parts]
        self._ends = [last for _, last in parts]
        self._offsets = [0]
        for first, last in parts:
            self._offsets.append(self._offsets[-1] + last - first + 1)
        self._left = self._offsets[-1]
        self._over = bytearray((self._left + 7) // 8)

    def __len__(self) -> int:
        return self._left

    def __contains__(self, run: int) -> bool:
        place = self._place(run)
        return place is not None and not self._over[place >> 3] >> (place & 7) & 1

    @property
    def ever(self) -> int:
        """How many there were when this was made."""
        return self._offsets[-1]

    def had(self, run: int) -> bool:
        """True for a run that was not over when this was made."""
        return self._place(run) is not None

    def discard(self, run: int) -> bool:
        """The run is over; return whether it was one of these, and was not over before."""
        place = self._place(run)
        if place is None or self._over[place >> 3] >> (place & 7) & 1:
            return False
        self._over[place >> 3] |= 1 << (place & 7)
        self._left -= 1
        return True

    @contextmanager
    def recounted(self) -> Iterator[Callable[[int], None]]:
        """After the block, only those are left that were, and for which what it yields was called."""
        over = bytearray(b"\xff" * len(self._over))
        left = 0

        def is_left(run: int) -> None:
            nonlocal left
            place = self._place(run)
            if place is not None and run in self and over[place >> 3] >> (place & 7) & 1:
                over[place >> 3] &= ~(1 << (place & 7))
                left += 1

        yield is_left
        self._over, self._left = over, left

    def _place(self, run: int) -> int | None:
        index = bisect_right(self._starts, run) - 1
        if index < 0 or run > self._ends[index]:
            return None
        return self._offsets[index] + run - self._starts[index]
