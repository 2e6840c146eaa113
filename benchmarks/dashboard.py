"""Pages of the dashboard over HTTP, and what an open page costs while it is kept up to date, for `benchmarks.pages`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import httpx
import psycopg
import redis

from benchmarks.web_server import caught_up, processor_seconds, server
from holdfast import Holdfast

PAGES = (
    "/", "/queues", "/queue?name=mail", "/queue?name=reports", "/jobs", "/jobs?state=failed", "/jobs?state=waiting",
    "/jobs?queue=reports&state=completed", "/jobs?task=send&state=waiting", "/jobs?task=seldom", "/jobs?key=key-7",
    "/jobs?id=rare-", "/jobs?tag=blue", "/chains", "/failures", "/schedules", "/workers", "/events",
    "/api/v1/jobs?state=failed", "/api/v1/queues", "/api/v1/recent", "/metrics",
)  # fmt: skip
KEPT_OPEN = ("/", "/queue?name=reports", "/jobs?state=waiting", "/jobs?task=seldom")
SAMPLES = 15
WATCHED = 10.0
"""Seconds for which an open page is watched."""
WITHOUT_NEWS = 10.0
SLOWEST = 15.0
SHARE = 200
"""As `live.js` has them."""
TRICKLE = 0.5
"""Seconds between two jobs that are enqueued, so that there is news."""


@dataclass(frozen=True)
class PageCost:
    """What one request for a page takes, in milliseconds; of the processor, for the server and for the store."""

    p50_ms: float
    server_ms: float
    store_ms: float


@dataclass(frozen=True)
class PollCost:
    """Shares of a core that an open page takes, of the server and of the store, and how often it was read."""

    server: float
    store: float
    reads: int


class Processors:
    """The processor time of a server, and of the store's processes; SQLite has none, and runs in the server."""

    def __init__(self, url: str, server: int) -> None:
        self._url = url
        self._server = server

    def now(self) -> dict[int, float]:
        """Return what each process has taken so far, in seconds."""
        return {pid: _seconds(pid) for pid in (self._server, *_store_processes(self._url))}

    def since(self, before: dict[int, float]) -> tuple[float, float]:
        """Return what server and store have taken since; a process that came or went meanwhile does not count."""
        spent = {pid: after - before[pid] for pid, after in self.now().items() if pid in before}
        own = spent.pop(self._server)
        return own, sum(spent.values())


def _store_processes(url: str) -> list[int]:
    if url.startswith("redis"):
        with redis.Redis.from_url(url) as client:
            return [client.info("server")["process_id"]]
    if not url.startswith("postgresql"):
        return []
    with psycopg.connect(url) as connection:
        (own,) = connection.execute("SELECT pg_backend_pid()").fetchone() or (0,)
    parent = _parent(own)
    everyone = [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()]
    return [pid for pid in everyone if _parent(pid) == parent and pid != own and not _is_vacuum(pid)]


def _parent(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def _is_vacuum(pid: int) -> bool:
    """Whether a process of PostgreSQL is one that cleans up, of itself, after a million jobs came."""
    with contextlib.suppress(OSError):
        return b"autovacuum" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def _seconds(pid: int) -> float:
    with contextlib.suppress(OSError):
        return processor_seconds(pid)
    return 0.0


def measure(url: str) -> tuple[dict[str, PageCost], dict[str, PollCost]]:
    """Return what each page takes, and what pages take that are open, by their path."""
    with server(url) as (where, pid):
        caught_up(where)
        processors = Processors(url, pid)
        pages = dict(_asked(where, processors))
        return pages, asyncio.run(_polled(url, where, processors))


def _asked(where: str, processors: Processors) -> Iterator[tuple[str, PageCost]]:
    with httpx.Client(base_url=where, timeout=60) as client:
        for name, path in ({path: path for path in PAGES} | _jobs(client)).items():
            client.get(path).raise_for_status()
            samples, before = [], processors.now()
            for _ in range(SAMPLES):
                begin = time.perf_counter()
                client.get(path).raise_for_status()
                samples.append((time.perf_counter() - begin) * 1000)
            own, store = (spent / SAMPLES * 1000 for spent in processors.since(before))
            yield name, PageCost(statistics.median(samples), own, store)


def _jobs(client: httpx.Client) -> dict[str, str]:
    """Return the pages of some jobs, and of a chain."""
    found = {}
    for state in ("completed", "failed", "waiting"):
        (job,) = client.get("/api/v1/jobs", params={"state": state, "limit": 1}).json()["jobs"]
        found[f"a {state} job"] = "/job?" + urlencode({name: job[name] for name in ("queue", "id", "run")})
    (chain,) = client.get("/api/v1/chains", params={"limit": 1}).json()["chains"]
    return {**found, "a chain": "/graph?" + urlencode({"queue": chain["queue"], "id": chain["id"]})}


async def _polled(url: str, where: str, processors: Processors) -> dict[str, PollCost]:
    found = {"no page": await _watched(processors, None), "/, nothing happens": await _watched(processors, where, "/")}
    async with _trickle(url):
        found["no page, a job now and then"] = await _watched(processors, None)
        for path in KEPT_OPEN:
            found[path] = await _watched(processors, where, path)
    return found


@asynccontextmanager
async def _trickle(url: str) -> AsyncIterator[None]:
    """Something happens now and then."""
    async with Holdfast(url) as app:

        async def enqueue() -> None:
            while True:
                await app.queue("trickle").enqueue(1)
                await asyncio.sleep(TRICKLE)

        task = asyncio.create_task(enqueue())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def _watched(processors: Processors, where: str | None, path: str = "/") -> PollCost:
    before, reads = processors.now(), 0
    begin = time.monotonic()
    if where is None:
        await asyncio.sleep(WATCHED)
    else:
        reads = await _keep_open(where, path, begin + WATCHED)
    passed = time.monotonic() - begin
    own, store = (spent / passed for spent in processors.since(before))
    return PollCost(own, store, reads)


async def _keep_open(where: str, path: str, end: float) -> int:
    """Read a page again and again as its script does; return how often."""
    wanted, reads, cost, read_at = asyncio.Event(), 0, 0.0, time.monotonic()
    async with httpx.AsyncClient(base_url=where, timeout=60) as client, client.stream("GET", "/live-updates") as news:

        async def listen() -> None:
            async for line in news.aiter_lines():
                if line.startswith("data: ") and json.loads(line[6:])["news"]:
                    wanted.set()

        listening = asyncio.create_task(listen())
        while time.monotonic() < end:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(wanted.wait(), min(WITHOUT_NEWS, end - time.monotonic()))
            wanted.clear()
            await asyncio.sleep(max(0.0, read_at + min(SLOWEST, max(1.0, cost * SHARE)) - time.monotonic()))
            answer = await client.get(path, headers={"X-Holdfast-Part": "1"})
            cost, read_at, reads = _spent(answer), time.monotonic(), reads + 1
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
    return reads


def _spent(answer: httpx.Response) -> float:
    """Return how long the server took for a page, in seconds."""
    return float(answer.headers["server-timing"].partition("dur=")[2]) / 1000
