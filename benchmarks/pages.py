"""python -m benchmarks.pages: what lists of jobs and pages of the dashboard cost with a million jobs in the store.

    python -m benchmarks.pages [--store sqlite|redis|postgres] [--jobs 1000000] [--url URL] [--only lists|pages]

Fills a store with jobs in every state, with keys, tags, tasks, chains and errors: finished ones first, then those that
wait, so that what is listed newest first has a backlog in front of it. Asks for pages of 50 by every filter; then for
each page of the dashboard, over HTTP; then keeps pages open as their script does, while nothing happens and while jobs
come, and tells which share of a core that takes of the server and of the store. `--url` keeps the store, for what else
is to be measured with it; one that is full already is not filled again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psycopg
from rich.console import Console
from rich.table import Table

from benchmarks import dashboard
from benchmarks import store as places
from benchmarks.aged import stock_postgres
from benchmarks.dashboard import PageCost, PollCost
from benchmarks.filling import ERRORS, Filling
from holdfast import Holdfast
from holdfast.store.contract import JobPage

SAMPLES = 15
WITHIN_MS = 100
"""A page should take no longer."""
LATER = 10
"""A page so far behind the first is measured, too."""


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
    """Print the figures of the lists."""
    table = _table(f"{store}: lists of 50 of {jobs:,} jobs, p50 of {SAMPLES}", "list", "first page ms", "later page ms",
                   "jobs", "calls to the first job")  # fmt: skip
    for name, row in rows.items():
        numbers = [f"{row[each]:.1f}" if each in row else "" for each in ("first_ms", "later_ms")]
        table.add_row(name, *numbers, *(f"{row[each]:.0f}" if each in row else "" for each in ("jobs", "calls")))
    _print(table)


def show_pages(store: str, pages: dict[str, PageCost], open_pages: dict[str, PollCost]) -> None:
    """Print the figures of the dashboard."""
    slow = sum(cost.p50_ms > WITHIN_MS for cost in pages.values())
    title = f"{store}: pages over HTTP, p50; {slow} of {len(pages)} take over {WITHIN_MS} ms"
    table = _table(title, "page", "ms", "processor of the server, ms", "of the store, ms")
    for name, cost in pages.items():
        table.add_row(name, *(f"{value:.1f}" for value in (cost.p50_ms, cost.server_ms, cost.store_ms)))
    _print(table)
    table = _table(f"{store}: one open page, shares of a core", "page", "server %", "store %", "times read")
    for name, poll in open_pages.items():
        table.add_row(name, f"{poll.server * 100:.2f}", f"{poll.store * 100:.2f}", str(poll.reads))
    _print(table)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title)
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left")
    return table


def _print(table: Table) -> None:
    console = Console()
    console.width = max(console.width, 100)
    console.print(table)


async def fill(store: str, jobs: int, url: str) -> None:
    """Fill the store, unless it is full."""
    async with Holdfast(url) as app:
        if (await app.count()).number < jobs // 2:
            begin = time.perf_counter()
            await Filling(app.store, jobs).fill()
            print(f"{store}: filled in {time.perf_counter() - begin:.0f} s", flush=True)
    if store == "postgres":
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            await connection.execute("ANALYZE")


async def lists(url: str) -> dict[str, dict[str, float]]:
    """Return what every list costs."""
    async with Holdfast(url) as app:
        return await measure(app)


def run(store: str, jobs: int, url: str, only: str | None) -> dict[str, Any]:
    """Fill the store, unless it is full, measure, and print; return the figures."""
    asyncio.run(fill(store, jobs, url))
    found: dict[str, Any] = {}
    if only != "pages":
        found["lists"] = asyncio.run(lists(url))
        show(store, jobs, found["lists"])
    if only != "lists":
        pages, open_pages = dashboard.measure(url)
        show_pages(store, pages, open_pages)
        found |= {"pages": {name: asdict(cost) for name, cost in pages.items()}}
        found |= {"open": {name: asdict(cost) for name, cost in open_pages.items()}}
    return found


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=["sqlite", "redis", "postgres"], default="sqlite")
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--url")
    parser.add_argument("--only", choices=["lists", "pages"])
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if given.url:
            found = run(given.store, given.jobs, given.url, given.only)
        else:
            place = stock_postgres() if given.store == "postgres" else places.STORES[given.store](Path(folder))
            with place as at:
                url = f"sqlite:///{at}" if given.store == "sqlite" else at
                found = run(given.store, given.jobs, url, given.only)
    if given.json:
        given.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
