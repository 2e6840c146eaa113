"""What one torture is to do: stored in its folder, for all its processes."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

import msgspec

PER_KEY, AT_ONCE = 2, 6
"""The limits of the queue `keyed`: for each key, and in all."""


@dataclass
class Plan:
    """One torture of one store."""

    store: str
    folder: str
    jobs: int = 1_000_000_000
    seconds: float = 120.0
    seed: int = 1
    rate: float = 400.0
    """Jobs per second that are enqueued at most, by all producers."""
    backlog: int = 5_000
    """Producers wait while more jobs than that are unfinished."""
    bulk: float = 0.6
    """The share of plain jobs; the others are of all kinds."""
    lease: float = 2.0
    workers: int = 3
    producers: int = 2
    slots: int = 12
    batch: int = 200
    """Jobs that a producer sends at once, about."""
    every: float = 3.0
    """Seconds between two faults, about."""
    keep: float = 3600.0
    """Seconds for which finished jobs are kept."""
    history: int = 100_000_000
    """Events that the log keeps."""
    disk_mb: int = 1024
    quiesce: float = 120.0
    """Seconds that everything may take to come to its end after the last fault."""
    faults: list[str] = field(default_factory=list)

    @property
    def path(self) -> Path:
        """The folder of this torture."""
        return Path(self.folder)

    def save(self) -> None:
        """Every process of this torture can load it."""
        (self.path / "plan.json").write_bytes(msgspec.json.encode(asdict(self)))


def load() -> Plan:
    """Return the plan of the torture that this process takes part in."""
    return msgspec.json.decode((Path(os.environ["TORTURE"]) / "plan.json").read_bytes(), type=Plan)
