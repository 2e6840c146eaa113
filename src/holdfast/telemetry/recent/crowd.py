"""Whether others want the processor at the same moment."""

from __future__ import annotations

from pathlib import Path

KERNEL = Path("/proc/thread-self/schedstat")
"""What this thread has run, and how long it was ready to run and had to wait, in nanoseconds. Linux has it."""
CROWDED = 0.2
"""So much of the time that it ran did it wait, besides."""


class Crowd:
    """Compares, from look to look, how long this thread ran and how long it waited for its turn."""

    def __init__(self, kernel: Path = KERNEL) -> None:
        self._kernel = kernel
        self._ran, self._waited = self._now()

    def is_there(self) -> bool:
        """Return whether the thread had to wait since the last look; never, where the kernel does not tell."""
        ran, waited = self._now()
        crowded = waited - self._waited > CROWDED * (ran - self._ran)
        self._ran, self._waited = ran, waited
        return crowded

    def _now(self) -> tuple[int, int]:
        try:
            ran, waited, _ = self._kernel.read_bytes().split()
            return int(ran), int(waited)
        except (OSError, ValueError):
            return 0, 0
