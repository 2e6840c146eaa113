"""python -m benchmarks.pages: what lists of jobs cost with a million jobs in the store.

    python -m benchmarks.pages [--store sqlite|redis|postgres] [--jobs 1000000] [--url URL] [--json FILE]

Fills a store with jobs in every state, with keys, tags, tasks and errors: finished ones first, then those that wait, so
that what is listed newest first has a backlog in front of it. Then asks for pages of 50 by every filter. `--url` keeps
the store, for what else is to be measured with it; one that is full already is not filled again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import store as places
from benchmarks.aged import stock_postgres
from holdfast import Holdfast
from holdfast.client import new_id
from holdfast.core.chain import BlockerRef
from holdfast.core.envelope import Envelope
from holdfast.core.job import ErrorRecord
from holdfast.store.contract import Claimed, Complete, Failed, JobPage, NewJob, Retried, Session, Settlement, Store

CHUNK = 1000
ROOM = 200
SAMPLES = 15
LATER = 10
"""A page so far behind the first is measured, too."""
DAY_MS = 24 * 3_600_000
ERRORS = [ErrorRecord(type="KeyError", message=f"no {word}") for word in ("bread", "butter", "salt", "milk", "tea")]
TAGGED = Envelope(tags=("blue",)).encoded()


class Filling:
    """Brings jobs into a store."""

    def __init__(self, store: Store, jobs: int) -> None:
        self.store = store
        self.jobs = jobs
        queues = ("mail", "reports", "rare")
        self.session = Session(id=new_id(), name="pages", host="-", pid=0, queues=queues, lease_ms=36_000_000)

    async def fill(self) -> None:
        """Six of ten jobs are completed, one failed; two wait, and the rest is in other states."""
        await self.store.register(self.session)
        await self.add("rare", 200, task="seldom")
        await self.end("rare", lambda job: Complete(job.lease, b"null"))
        await self.add("mail", self.jobs * 5 // 10, task="send")
        await self.end("mail", lambda job: Complete(job.lease, b"null"))
        await self.add("reports", self.jobs // 10, keys=500)
        await self.end("reports", lambda job: Complete(job.lease, b"null"))
        await self.add("mail", self.jobs // 10, task="send")
        await self.end("mail", lambda job: Failed(job.lease, ERRORS[job.lease.run % 97 % len(ERRORS)]))
        await self.add("mail", self.jobs // 100, task="send")
        await self.end("mail", lambda job: Retried(job.lease, ERRORS[0], delay_ms=DAY_MS))
        (first,) = await self.add("mail", 1, delay_ms=DAY_MS)
        await self.add("mail", self.jobs // 200, blockers=(BlockerRef("mail", first.id),))
        for job in await self.add("mail", min(2000, self.jobs // 500), delay_ms=DAY_MS):
            await self.store.cancel("mail", job.id)
        await self.add("mail", self.jobs // 1000, envelope=TAGGED, task="send")
        await self.add("mail", self.jobs // 12, delay_ms=DAY_MS, task="send")
        await self.add("reports", self.jobs // 10, keys=1000)
        await self.add("mail", self.jobs // 10, task="send")
        await self.store.settle_and_claim(self.session, [], ("mail",), ROOM)

    async def add(self, queue: str, size: int, *, keys: int = 0, task: str = "make", **fields: Any) -> list[NewJob]:
        """So many more jobs are in the queue; return the last of them."""
        jobs: list[NewJob] = []
        for start in range(0, size, CHUNK):
            jobs = [
                NewJob(
                    id=f"{queue}-{new_id()}", task=task, payload=b'{"data":"' + b"x" * 100 + b'"}',
                    result_ttl_ms=10 * DAY_MS, key=f"key-{number % keys}" if keys else None, **fields,
                )
                for number in range(start, min(size, start + CHUNK))
            ]  # fmt: skip
            await self.store.enqueue(queue, jobs)
        return jobs

    async def end(self, queue: str, how: Callable[[Claimed], Settlement]) -> None:
        """All that wait in the queue have ended."""
        ends: list[Settlement] = []
        while True:
            turn = await self.store.settle_and_claim(self.session, ends, (queue,), ROOM)
            ends = [how(job) for job in turn.claimed]
            if not ends:
                return


async def median_ms(work: Callable[[], Awaitable[object]]) -> float:
    """Return what the work takes, at the median."""
    samples = []
    for _ in range(SAMPLES):
        begin = time.perf_counter()
        await work()
        samples.append((time.perf_counter() - begin) * 1000)
    return statistics.median(samples)


async def page_row(app: Holdfast, **which: Any) -> dict[str, float]:
    """Return what the first page and a later one take, and how many calls it takes to find the first job."""
    page = await app.jobs(**which)
    row = {"first_ms": await median_ms(lambda: app.jobs(**which)), "jobs": len(page.jobs), "calls": 1}
    cursor: str | None = page.cursor
    while not page.jobs and page.cursor is not None:
        cursor, row["calls"] = page.cursor, row["calls"] + 1
        page = await app.jobs(cursor=cursor, **which)
    later = await _later(app, page, which)
    row["later_ms"] = await median_ms(lambda: app.jobs(cursor=later, **which)) if later else row["first_ms"]
    return row


async def _later(app: Holdfast, page: JobPage, which: dict[str, Any]) -> str | None:
    for _ in range(LATER):
        if page.cursor is None:
            return None
        later = page.cursor
        page = await app.jobs(cursor=later, **which)
    return later


async def measure(app: Holdfast) -> dict[str, dict[str, float]]:
    """Return what every list costs."""
    states = ("waiting", "scheduled", "blocked", "active", "completed", "failed", "cancelled")
    filters: dict[str, dict[str, Any]] = {
        "all": {}, **{state: {"state": state} for state in states}, "queue": {"queue": "mail"},
        "rare queue": {"queue": "rare"}, "completed of a queue": {"queue": "reports", "state": "completed"},
        "task": {"task": "make"}, "rare task": {"task": "seldom"}, "key": {"key": "key-7"},
        "id prefix": {"id_prefix": "mail-0"}, "rare id prefix": {"id_prefix": "rare-"},
        "signature": {"signature": ERRORS[1].signature}, "tag": {"tag": "blue"}, "worker": {"worker": "pages"},
    }  # fmt: skip
    rows = {name: await page_row(app, **which) for name, which in filters.items()}
    queue = app.queue("reports")
    others: dict[str, Callable[[], Awaitable[object]]] = {
        "keys, busiest": lambda: queue.keys(), "keys, starved": lambda: queue.keys(order="starved"),
        "count of a state": lambda: app.count(state="completed"), "count of a task": lambda: app.count(task="make"),
        "count of a signature": lambda: app.count(signature=ERRORS[1].signature), "queues": app.queues,
        "measure": app.measure, "layers": queue.layers,
    }  # fmt: skip
    return rows | {name: {"first_ms": await median_ms(work)} for name, work in others.items()}


def show(store: str, jobs: int, rows: dict[str, dict[str, float]]) -> None:
    """Print the figures."""
    table = Table(title=f"{store}: pages of 50 of {jobs:,} jobs, p50 of {SAMPLES}")
    for column in ("list", "first page ms", "later page ms", "jobs", "calls to the first job"):
        table.add_column(column, justify="left" if column == "list" else "right")
    for name, row in rows.items():
        numbers = [f"{row[each]:.1f}" if each in row else "" for each in ("first_ms", "later_ms")]
        table.add_row(name, *numbers, *(f"{row[each]:.0f}" if each in row else "" for each in ("jobs", "calls")))
    console = Console()
    console.width = max(console.width, 100)
    console.print(table)


async def run(store: str, jobs: int, url: str) -> dict[str, dict[str, float]]:
    """Fill the store, unless it is full, and measure."""
    async with Holdfast(url) as app:
        if (await app.count()).number < jobs // 2:
            begin = time.perf_counter()
            await Filling(app.store, jobs).fill()
            print(f"{store}: filled in {time.perf_counter() - begin:.0f} s", flush=True)
        return await measure(app)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", choices=["sqlite", "redis", "postgres"], default="sqlite")
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--url")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if given.url:
            rows = asyncio.run(run(given.store, given.jobs, given.url))
        else:
            place = stock_postgres() if given.store == "postgres" else places.STORES[given.store](Path(folder))
            with place as at:
                url = f"sqlite:///{at}" if given.store == "sqlite" else at
                rows = asyncio.run(run(given.store, given.jobs, url))
    show(given.store, given.jobs, rows)
    if given.json:
        given.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
