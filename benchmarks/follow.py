"""python -m benchmarks.follow: what it costs to follow the event log, as the dashboard and `holdfast top` do.

    python -m benchmarks.follow [--store sqlite|redis|postgres] [--events 100000] [--queues 4] [--json FILE]

Fills a store with the events of finished jobs, then follows its log from the beginning: processor time of the follower
and of the server for 100,000 events, and the share of a core that 20,000 events a second take. Then idle looks at a log
in which nothing happens, and reads of what is kept. SQLite is read in the follower's own process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import store as places
from benchmarks.app import new_runner
from holdfast.client import new_id
from holdfast.store import open_store
from holdfast.store.contract import Complete, NewJob, Session, Store
from holdfast.telemetry.recent import Recent, RecentOptions

CHUNK = 1_000
ROOM = 100
IDLE_LOOKS = 200
READS = 50
PER = 100_000
RATE = 20_000
"""Events a second for which the share of a core is told."""

TITLES = (
    "store", "events", "queues", "follower, s per 100k", "server, s per 100k", "follower, cores at 20k/s",
    "server, cores at 20k/s", "events/s at most", "idle look, ms", "idle, server ms", "view, ms",
)  # fmt: skip


@dataclass
class Cost:
    """What was found. Times are of processors, in seconds, unless they say otherwise."""

    store: str
    events: int
    queues: int
    follower_per_100k: float
    server_per_100k: float
    follower_at_20k: float
    """The share of a core at 20,000 events a second."""
    server_at_20k: float
    events_per_second: float
    """How fast the follower reads when it may."""
    idle_poll_ms: float
    """Of the follower, for one look at a log in which nothing happened."""
    idle_server_ms: float
    view_ms: float
    """To read everything that is kept."""


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--store", choices=sorted(places.STORES), action="append")
    parser.add_argument("--events", type=int, default=PER)
    parser.add_argument("--queues", type=int, default=4)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = [_measure(store, options.events, options.queues) for store in options.store or sorted(places.STORES)]
    _show(found)
    if options.json:
        options.json.write_text(json.dumps([asdict(each) for each in found], indent=2) + "\n")


def _measure(kind: str, events: int, queues: int) -> Cost:
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder, places.STORES[kind](Path(folder)) as url:
        address = url if "://" in url else f"sqlite:///{url}"
        with new_runner() as runner:
            return runner.run(_follow(kind, address, events, queues))


async def _follow(kind: str, url: str, events: int, queues: int) -> Cost:
    store = open_store(url)
    await store.open()
    try:
        names = [f"q{number}" for number in range(queues)]
        for name in names:
            await _fill(store, name, events // 3 // queues)
        recent = Recent(store, RecentOptions(back=2 * events, dead_letters=0))
        own, server, wall = await _timed(lambda: _catch_up(recent))
        read = recent.state().events
        idle, idle_server, _ = await _timed(lambda: _idle(recent))
        began = time.perf_counter()
        for _ in range(READS):
            recent.view()
        view_ms = (time.perf_counter() - began) / READS * 1000
    finally:
        await store.close()
    return Cost(
        store=kind, events=read, queues=queues,
        follower_per_100k=own / read * PER, server_per_100k=server / read * PER,
        follower_at_20k=own / read * RATE, server_at_20k=server / read * RATE, events_per_second=read / wall,
        idle_poll_ms=idle / IDLE_LOOKS * 1000, idle_server_ms=idle_server / IDLE_LOOKS * 1000, view_ms=view_ms,
    )  # fmt: skip


async def _fill(store: Store, queue: str, jobs: int) -> None:
    """The jobs of a queue are enqueued, claimed and completed: three events each."""
    session = Session(id=new_id(), name="bench", host="bench", pid=os.getpid(), queues=(queue,), slots=ROOM)
    await store.register(session)
    for first in range(0, jobs, CHUNK):
        count = min(CHUNK, jobs - first)
        fresh = [NewJob(id=new_id(), task=f"task-{number % 5}", payload=b"{}", fresh=True) for number in range(count)]
        await store.enqueue(queue, fresh)
        settlements: list[Complete] = []
        while True:
            turn = await store.settle_and_claim(session, settlements, [queue], ROOM)
            settlements = [Complete(job.lease, b"null") for job in turn.claimed]
            if not settlements:
                break
    await store.leave(session)


async def _catch_up(recent: Recent) -> None:
    while await recent.poll():
        pass


async def _idle(recent: Recent) -> None:
    for _ in range(IDLE_LOOKS):
        await recent.poll()


async def _timed(work: Callable[[], Awaitable[None]]) -> tuple[float, float, float]:
    """Return the processor time of this process and of its servers, and the seconds that passed."""
    server, own, began = _servers(), time.process_time(), time.perf_counter()
    await work()
    passed, own = time.perf_counter() - began, time.process_time() - own
    await asyncio.sleep(0.05)
    return own, _servers() - server, passed


def _servers() -> float:
    """Return the processor time of all processes below this one."""
    parents: dict[int, tuple[int, float]] = {}
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "stat").read_text().rpartition(")")[2].split() if entry.name.isdigit() else []
        except OSError:
            continue
        if words:
            ticks = int(words[11]) + int(words[12])
            parents[int(entry.name)] = (int(words[1]), ticks / os.sysconf("SC_CLK_TCK"))
    return sum(spent for pid, (_, spent) in parents.items() if pid != os.getpid() and _below(pid, parents))


def _below(pid: int, parents: dict[int, tuple[int, float]]) -> bool:
    while pid in parents:
        pid = parents[pid][0]
        if pid == os.getpid():
            return True
    return False


def _show(found: list[Cost]) -> None:
    table = Table(title="Following the event log")
    for name in TITLES:
        table.add_column(name, justify="right")
    for each in found:
        table.add_row(*(f"{value:,.3g}" if isinstance(value, float) else str(value) for value in asdict(each).values()))
    Console(width=180).print(table)


if __name__ == "__main__":
    main()
