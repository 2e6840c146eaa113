"""SAQ on Redis and on PostgreSQL: one worker with 100 slots."""

from __future__ import annotations

from typing import Any

from benchmarks.peers._asyncio import Handler, Peer, verbs
from benchmarks.script import main
from benchmarks.system import PAYLOAD, System

MEASURES = ("enqueue", "drain", "latency", "call", "sleep", "footprint", "recovery")

SYSTEMS = (
    System(
        name="saq",
        script=__name__,
        store="redis",
        packages=("saq[redis,hiredis]", "saq[postgres]", "psycopg[binary,pool]", "typing_extensions"),
        measures=MEASURES,
        most=(("drain", 5_000), ("enqueue", 5_000)),
        note="concurrency 100, dequeue_timeout 0.1, results polled every 5 ms (500 as it comes); no bulk",
        lacks="no limits over all workers",
    ),
    System(
        name="saq",
        script=__name__,
        store="postgres",
        packages=("saq[redis,hiredis]", "saq[postgres]", "psycopg[binary,pool]", "typing_extensions"),
        measures=(*MEASURES, "wal"),
        most=(("drain", 1_000), ("enqueue", 1_000), ("wal", 500)),
        note="concurrency 100, woken by NOTIFY, results polled every 5 ms (500 as it comes); no bulk",
        lacks="no limits over all workers",
    ),
)


class Saq(Peer):
    async def open(self) -> None:
        from saq import Queue

        self.queue: Any = Queue.from_url(self.place.url)
        await self.queue.connect()

    async def close(self) -> None:
        await self.queue.disconnect()

    async def one(self, data: str) -> None:
        await self.queue.enqueue("noop", data=data)

    async def call(self) -> None:
        await self.queue.apply("noop", data=PAYLOAD, timeout=30, poll_interval=0.005)

    async def work(self, handle: Handler) -> None:
        from saq import Queue, Worker

        async def noop(context: Any, *, data: str) -> None:
            await handle(data)

        waits = {"dequeue_timeout": 0.1} if self.place.url.startswith("redis") else {}  # PostgreSQL tells it
        queue = Queue.from_url(self.place.url)
        await queue.connect()
        await Worker(queue, [("noop", noop)], concurrency=100, **waits).start()


if __name__ == "__main__":
    main({"SYSTEMS": SYSTEMS, **verbs(Saq)})
