"""procrastinate: jobs in PostgreSQL by psycopg, one worker with 100 slots."""

from __future__ import annotations

from typing import Any

from benchmarks.peers._asyncio import Handler, Peer, verbs
from benchmarks.script import main
from benchmarks.system import System

CHUNK = 1_000

SYSTEMS = (
    System(
        name="procrastinate",
        script=__name__,
        store="postgres",
        packages=("procrastinate", "psycopg[binary,pool]"),
        measures=("enqueue", "bulk", "drain", "latency", "sleep", "footprint", "wal", "recovery"),
        most=(("drain", 2_000), ("enqueue", 2_000), ("wal", 500)),
        note="psycopg, concurrency 100; an event for each status; no results, so no calls; drain of 2,000",
        lacks="no results; a killed worker's job stays until your code retries it",
    ),
)


class Procrastinate(Peer):
    async def open(self, handle: Handler | None = None) -> None:
        import procrastinate

        self.app: Any = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=self.place.url))

        async def noop(data: str) -> None:
            if handle is not None:
                await handle(data)

        self.noop: Any = self.app.task(name="noop", queue="bench")(noop)
        await self.app.open_async()
        if not await self.app.check_connection_async():
            await self.app.schema_manager.apply_schema_async()

    async def close(self) -> None:
        await self.app.close_async()

    async def one(self, data: str) -> None:
        await self.noop.defer_async(data=data)

    async def many(self, data: str, count: int) -> None:
        for first in range(0, count, CHUNK):
            await self.noop.batch_defer_async(*({"data": data} for _ in range(min(CHUNK, count - first))))

    async def work(self, handle: Handler) -> None:
        await self.open(handle)
        await self.app.run_worker_async(queues=["bench"], concurrency=100, install_signal_handlers=False)


if __name__ == "__main__":
    main({"SYSTEMS": SYSTEMS, **verbs(Procrastinate)})
