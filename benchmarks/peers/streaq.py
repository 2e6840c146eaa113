"""streaq on Redis: one worker in this process, 100 tasks at a time."""

from __future__ import annotations

from typing import Any

from benchmarks.peers._asyncio import Handler, Peer, verbs
from benchmarks.script import main
from benchmarks.system import PAYLOAD, System

CHUNK = 1_000

SYSTEMS = (
    System(
        name="streaq",
        script=__name__,
        store="redis",
        packages=("streaq", "uvloop"),
        measures=("enqueue", "bulk", "drain", "latency", "call", "sleep", "footprint", "recovery"),
        most=(("drain", 3_000), ("enqueue", 3_000)),
        note=f"uvloop, concurrency 100; bulk in chunks of {CHUNK:,}",
        lacks="no limits over all workers",
    ),
)


class Streaq(Peer):
    def worker(self, handle: Handler | None = None) -> tuple[Any, Any]:
        from streaq import Worker

        worker: Any = Worker(redis_url=self.place.url, concurrency=100, handle_signals=False)

        async def noop(data: str) -> None:
            if handle is not None:
                await handle(data)

        return worker, worker.task(noop)

    async def open(self) -> None:
        self.made, self.noop = self.worker()
        await self.made.__aenter__()

    async def close(self) -> None:
        await self.made.__aexit__(None, None, None)

    async def one(self, data: str) -> Any:
        return await self.noop.enqueue(data)

    async def many(self, data: str, count: int) -> None:
        for first in range(0, count, CHUNK):
            size = min(CHUNK, count - first)
            await self.made.enqueue_many([self.noop.enqueue(data) for _ in range(size)])

    async def call(self) -> None:
        await (await self.one(PAYLOAD)).result(timeout=30)

    async def work(self, handle: Handler) -> None:
        worker, _ = self.worker(handle)
        await worker.run_async()


if __name__ == "__main__":
    import uvloop

    main({"SYSTEMS": SYSTEMS, **verbs(Streaq, uvloop.new_event_loop)})
