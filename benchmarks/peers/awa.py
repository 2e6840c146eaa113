"""awa: a Rust engine in PostgreSQL with Python bindings, one worker with 100 slots. It keeps no results."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from benchmarks.peers._asyncio import Handler, Peer, verbs
from benchmarks.script import main
from benchmarks.system import System

CHUNK = 1_000
CLAIMERS = 2

SYSTEMS = (
    System(
        name="awa",
        script=__name__,
        store="postgres",
        packages=("awa-pg",),
        measures=("enqueue", "bulk", "drain", "latency", "sleep", "footprint", "wal", "recovery"),
        most=(("enqueue", 2_000), ("wal", 2_000)),
        note=f"queue storage, 100 workers, {CLAIMERS} claimers; bulk by COPY, {CHUNK:,} at a time; no calls",
        lacks="no results, no event log; an open transaction that has enqueued holds up other producers",
    ),
)


@dataclass
class Noop:
    """What a job carries."""

    data: str


class Awa(Peer):
    async def open(self) -> None:
        from awa import AsyncClient

        self.client: Any = AsyncClient(self.place.url)
        await self.client.migrate()
        if json.loads(await self.client.storage_status())["active_engine"] != "queue_storage":
            await self.client.install_queue_storage()

    async def close(self) -> None:
        await self.client.close()

    async def one(self, data: str) -> None:
        await self.client.insert(Noop(data), queue="bench")

    async def many(self, data: str, count: int) -> None:
        for first in range(0, count, CHUNK):
            jobs = [Noop(data) for _ in range(min(CHUNK, count - first))]
            await self.client.enqueue_many_copy(jobs, queue="bench")

    async def work(self, handle: Handler) -> None:
        await self.open()

        async def noop(job: Any) -> None:
            await handle(job.args.data)

        self.client.task(Noop, queue="bench")(noop)
        await self.client.start([{"name": "bench", "max_workers": 100, "claimers": CLAIMERS}])
        await asyncio.Event().wait()


if __name__ == "__main__":
    main({"SYSTEMS": SYSTEMS, **verbs(Awa)})
