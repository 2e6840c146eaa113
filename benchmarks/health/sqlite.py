"""A SQLite file over an hour's worth of jobs: how long its log gets, how large it is, and what a worker holds.

Two producers and two workers, each a process of its own. At low load each job is waited for before the next is
enqueued, so that each of its steps is a commit by itself, as at 27 jobs a second; at high load jobs come by the
hundred. It is the number of jobs that counts, not the hour. `python -m benchmarks.health --store sqlite` runs both.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

QUEUE = "health"
LOW = 27 * 3600
HIGH = 2_500 * 3600
PARTS = 10
EACH = 2
"""Producers, and workers."""
CHUNK = 100
BACKLOG = 5_000
"""Jobs that wait at most, so that the file shows what is kept and not what is late."""
HISTORY = 20_000
"""Events that the log keeps; in a short run fewer, so that it has its length after the first part."""
LOOK = 0.1
BOUND_MB = 64.0
"""The log's: 16 MB, what is written until it has been taken in, and as much again for a busy machine."""
SETTLED = 70.0
"""Seconds after which a store has reached its length: what somebody waited for is kept for a minute."""
FLAT = 1.25
"""The last part beside the first after that, or the second: a store that has reached its length grows no more."""


@dataclass
class Course:
    """What was seen, part by part: the largest of each."""

    jobs: int = 0
    seconds: float = 0.0
    wal_mb: list[float] = field(default_factory=list)
    file_mb: list[float] = field(default_factory=list)
    worker_mb: list[float] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)
    """When each part ended, in seconds from the begin."""

    @property
    def settled(self) -> int:
        """The index of the part with which the last is compared."""
        return next((part for part, end in enumerate(self.ended) if part and end >= SETTLED), 1)

    @property
    def rate(self) -> float:
        """Jobs a second."""
        return self.jobs / self.seconds if self.seconds else 0.0


def place(path: str, jobs: int) -> str:
    """Return a file with the length of its log: each job has three events, and there are ten parts."""
    return f"{path}?history={min(HISTORY, 2 * jobs // PARTS)}"


def application(place: str) -> tuple[Any, Any]:
    """An app whose results and events are kept for so short that an hour's worth of them would show."""
    from holdfast import Holdfast

    app = Holdfast(f"sqlite:///{place}")
    app.queue(QUEUE, result_ttl=2)

    @app.task(queue=QUEUE)
    async def noop(data: str) -> None: ...

    return app, noop


async def produce(place: str, jobs: int, *, low: bool) -> None:
    """So many jobs are enqueued; at low load each is done before the next comes."""
    app, noop = application(place)
    async with app:
        for number in range(0, jobs, 1 if low else CHUNK):
            if low:
                await noop.call("x" * 100)
                continue
            await noop.enqueue_many(noop.args("x" * 100) for _ in range(min(CHUNK, jobs - number)))
            while number % (10 * CHUNK) == 0 and await _backlog(app) > BACKLOG:  # noqa: ASYNC110, it is others' work
                await asyncio.sleep(LOOK)


async def _backlog(app: Any) -> int:
    return sum(info.counts["waiting"] for info in await app.store.queues())


async def work(place: str) -> None:
    """A worker, until it is told to stop."""
    app, _ = application(place)
    async with app:
        await app.worker(queues=[QUEUE], slots=100).run()


@contextmanager
def processes(path: str, jobs: int, *, low: bool) -> Iterator[tuple[list[subprocess.Popen[bytes]], ...]]:
    """Yield the producers and the workers; all of them are gone afterwards."""
    base = [sys.executable, "-m", "benchmarks.health.sqlite", place(path, jobs)]
    share = json.dumps({"jobs": jobs // EACH, "low": low})
    workers = [subprocess.Popen([*base, "work"]) for _ in range(EACH)]
    producers = [subprocess.Popen([*base, "produce", share]) for _ in range(EACH)]
    try:
        yield producers, workers
    finally:
        for process in producers + workers:
            process.terminate()
        for process in producers + workers:
            process.wait()


def measure(jobs: int, *, low: bool, console: Console) -> Course:
    """Return what was seen of a file of its own."""
    course = Course(jobs=jobs // EACH * EACH)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/jobs.db"
        asyncio.run(_make(place(path, jobs)))
        begin = time.perf_counter()
        with processes(path, jobs, low=low) as (producers, workers):
            for part in range(1, PARTS + 1):
                _watch(course, path, course.jobs * part // PARTS, producers, workers)
                course.ended.append(time.perf_counter() - begin)
                console.print(
                    f"{part / PARTS:.0%}: log {course.wal_mb[-1]:.1f} MB, file {course.file_mb[-1]:.1f} MB, "
                    f"worker {course.worker_mb[-1]:.1f} MB", style="dim",
                )  # fmt: skip
            course.seconds = time.perf_counter() - begin
    return course


async def _make(place: str) -> None:
    app, _ = application(place)
    async with app:
        pass


def _watch(course: Course, path: str, until: int, producers: list[Any], workers: list[Any]) -> None:
    """Look at the file until so many jobs have been taken in, and note the largest of each figure."""
    wal = file = held = 0.0
    while True:
        wal = max(wal, _size(f"{path}-wal"))
        file = max(file, _size(path))
        held = max([held, *(_resident(worker.pid) for worker in workers)])
        if any(process.poll() not in (None, 0) for process in producers) or any(w.poll() is not None for w in workers):
            raise SystemExit("a process of the measurement ended badly; its last words are above")
        if _last_run(path) >= until or all(process.poll() == 0 for process in producers):
            break
        time.sleep(LOOK)
    course.wal_mb.append(wal)
    course.file_mb.append(file)
    course.worker_mb.append(held)


def _last_run(path: str) -> int:
    import sqlite3

    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return int(connection.execute("SELECT value FROM holdfast_meta WHERE name = 'run'").fetchone()[0])
    finally:
        connection.close()


def _size(path: str) -> float:
    try:
        return os.stat(path).st_size / 1e6
    except FileNotFoundError:
        return 0.0


def _resident(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/statm").read_text()
    except OSError:
        return 0.0
    return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def is_flat(figures: list[float], since: int) -> bool:
    """True when the last part is not much above one at which the way there was over."""
    return len(figures) <= since or figures[-1] <= FLAT * figures[since]


def show(console: Console, courses: dict[str, Course]) -> bool:
    """Print a table and a verdict for each load; return whether every bound was kept."""
    kept = True
    for name, course in courses.items():
        table = Table(
            "part", "log, MB", "file, MB", "worker, MB", title=f"{name}: {course.jobs:,} jobs at {course.rate:,.0f}/s"
        )
        for number, row in enumerate(zip(course.wal_mb, course.file_mb, course.worker_mb, strict=True), 1):
            table.add_row(str(number), *(f"{figure:.1f}" for figure in row))
        console.print(table)
        if course.seconds < SETTLED:
            console.print(f"less than {SETTLED:g} s: what is kept for a minute still adds up", style="dim")
        verdicts = {
            f"log <= {BOUND_MB:g} MB": max(course.wal_mb) <= BOUND_MB,
            f"file <= {FLAT} x of part {course.settled + 1}": is_flat(course.file_mb, course.settled),
            f"worker <= {FLAT} x of part {course.settled + 1}": is_flat(course.worker_mb, course.settled),
        }
        for what, is_kept in verdicts.items():
            console.print(f"{what}: {'[green]pass[/]' if is_kept else '[red]fail[/]'}")
        kept = kept and all(verdicts.values())
    return kept


def run(low: int, high: int, console: Console) -> dict[str, Any]:
    """Both loads are measured and shown; return every figure."""
    courses = {
        "low load": measure(low, low=True, console=console),
        "high load": measure(high, low=False, console=console),
    }
    show(console, courses)
    return {name: asdict(course) for name, course in courses.items()}


def main() -> None:
    """One process of a measurement."""
    path, verb, *rest = sys.argv[1:]
    if verb == "work":
        asyncio.run(work(path))
    else:
        asyncio.run(produce(path, **json.loads(rest[0])))


if __name__ == "__main__":
    main()
