"""pgqueuer: jobs in PostgreSQL by asyncpg, in batches. It keeps no result and no event for each transition."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from benchmarks.peers._asyncio import Handler, Peer, verbs
from benchmarks.script import main
from benchmarks.system import PAYLOAD, System

BATCH = 100
CHUNK = 1_000
DEBOUNCE = 0.005

SYSTEMS = (
    System(
        name="pgqueuer",
        script=__name__,
        store="postgres",
        packages=("pgqueuer[asyncpg]", "asyncpg", "uvloop"),
        measures=("enqueue", "bulk", "drain", "latency", "call", "sleep", "footprint", "wal", "recovery"),
        most=(("enqueue", 2_000), ("wal", 2_000)),
        note=f"asyncpg, uvloop; batches of {BATCH}; a status log for each job, no results: a call waits for its status,"
        " debounced by 5 ms (50 as it comes)",
        lacks="no results: a call learns of its end only; no events with counters and causes",
    ),
)


class Pgqueuer(Peer):
    async def open(self) -> None:
        import asyncpg
        from pgqueuer.db import AsyncpgDriver
        from pgqueuer.queries import Queries

        self.driver: Any = AsyncpgDriver(await asyncpg.connect(self.place.url))
        self.queries: Any = Queries(self.driver)
        self.watcher: Any = None
        if not await self.queries.has_table("pgqueuer"):
            await self.queries.install()

    async def one(self, data: str) -> Any:
        return await self.queries.enqueue("bench", data.encode())

    async def many(self, data: str, count: int) -> None:
        for first in range(0, count, CHUNK):
            size = min(CHUNK, count - first)
            await self.queries.enqueue(["bench"] * size, [data.encode()] * size, [0] * size)

    async def call(self) -> None:
        from pgqueuer.core.completion import CompletionWatcher

        if self.watcher is None:
            watcher = CompletionWatcher(self.driver, queries=self.queries, debounce=timedelta(seconds=DEBOUNCE))
            self.watcher = await watcher.__aenter__()
        (job,) = await self.one(PAYLOAD)
        await self.watcher.wait_for(job)

    async def work(self, handle: Handler) -> None:
        from pgqueuer import PgQueuer

        await self.open()
        worker: Any = PgQueuer(self.driver)

        async def noop(job: Any) -> None:
            await handle((job.payload or b"").decode())

        worker.entrypoint("bench")(noop)
        await worker.run(batch_size=BATCH, dequeue_timeout=timedelta(seconds=1))


if __name__ == "__main__":
    import uvloop

    main({"SYSTEMS": SYSTEMS, **verbs(Pgqueuer, uvloop.new_event_loop)})
