"""How much a run for the page measures: all of it in about half an hour on a quiet machine, or a quick look.

What is left out for that, the page says, with the command that adds it.
"""

from __future__ import annotations

from dataclasses import dataclass

STORES = ("sqlite", "redis", "postgres")
RATES = ("bulk", "drain")
"""What is measured in several rounds; the rest takes longer."""
OTHERS = ("enqueue", "latency", "call", "sleep", "footprint", "wal")
PARTS = ("compare", "recovery", "scale", "backlog", "sustained", "scenarios", "harness")
"""What can be measured by itself. The page has the figures of each as they were taken last."""
OF_EACH_STORE = ("compare", "recovery", "scale", "backlog", "sustained")
"""Those that one store can have by itself; the page keeps those of the others, if they were taken in the same sizes."""
MOST_BACKLOG, LONGEST_SUSTAINED = 10_000_000, 600.0
"""What a page that leaves nothing out has measured."""


@dataclass(frozen=True)
class PagePlan:
    """The sizes of one run."""

    peers: dict[str, str]
    """By store, names with commas."""
    jobs: int = 100_000
    peer_jobs: int = 100_000
    rounds: int = 2
    """Of bulk and drain."""
    patience: float = 120.0
    others: tuple[str, ...] = OTHERS
    survivors: str = "bullmq,platformatic,dramatiq,taskiq,pgqueuer,awa,procrastinate"
    """The peers whose workers are killed."""
    recovery_jobs: int = 1_000
    recovery_patience: float = 75.0
    processes: tuple[int, ...] = (1, 2, 4)
    scale_jobs: int = 20_000
    shapes: tuple[str, ...] = ("one queue", "1,000 queues", "10,000 keys")
    backlog: int = 100_000
    sustained: float = 30.0
    held: float = 6.0
    """Seconds of each phase while a transaction is held open."""
    clone: str = ""
    """A clone of the third-party harness, which is then run, too."""
    stores: tuple[str, ...] = STORES
    parts: tuple[str, ...] = PARTS


FULL = PagePlan(
    peers={
        "sqlite": "litequeue,huey",
        "redis": "bullmq,platformatic,dramatiq,taskiq",
        "postgres": "pgqueuer,awa,procrastinate",
    }
)
QUICK = PagePlan(
    peers={"sqlite": "litequeue", "redis": "bullmq", "postgres": "pgqueuer,awa"},
    jobs=5_000, peer_jobs=2_000, rounds=1, patience=40, others=("enqueue", "latency", "call", "footprint"),
    survivors="bullmq,pgqueuer,awa", recovery_jobs=500, recovery_patience=45, processes=(1, 2), scale_jobs=5_000,
    shapes=("one queue", "10,000 keys"),
    backlog=10_000, sustained=10, held=3,
)  # fmt: skip
