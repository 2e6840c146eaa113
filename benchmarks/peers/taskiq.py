"""taskiq on a Redis stream: one receiver in this process, 100 tasks at a time."""

from __future__ import annotations

from typing import Any

from benchmarks.peers._asyncio import Handler, Peer, verbs
from benchmarks.script import main
from benchmarks.system import PAYLOAD, System

SYSTEMS = (
    System(
        name="taskiq",
        script=__name__,
        store="redis",
        packages=("taskiq", "taskiq-redis", "redis", "hiredis", "uvloop"),
        measures=("enqueue", "drain", "latency", "call", "sleep", "footprint", "recovery"),
        most=(("drain", 20_000),),
        note="stream broker, uvloop, 100 at a time, results polled every 5 ms (200 as it comes); no bulk;"
        " drain of 20,000",
        lacks="no deduplicating ids; no limits over all workers",
    ),
)


class Taskiq(Peer):
    def broker(self, handle: Handler | None = None) -> tuple[Any, Any]:
        from taskiq_redis import RedisAsyncResultBackend, RedisStreamBroker

        results: Any = RedisAsyncResultBackend(self.place.url)
        broker = RedisStreamBroker(self.place.url, consumer_id="0").with_result_backend(results)

        async def noop(data: str) -> None:
            if handle is not None:
                await handle(data)

        return broker, broker.register_task(noop, task_name="noop")

    async def open(self) -> None:
        self.made, self.noop = self.broker()
        await self.made.startup()

    async def close(self) -> None:
        await self.made.shutdown()

    async def one(self, data: str) -> Any:
        return await self.noop.kiq(data)

    async def call(self) -> None:
        await (await self.one(PAYLOAD)).wait_result(check_interval=0.005, timeout=30)

    async def work(self, handle: Handler) -> None:
        from taskiq.api import run_receiver_task

        broker, _ = self.broker(handle)
        await broker.startup()
        await run_receiver_task(broker, max_async_tasks=100, max_prefetch=100)


if __name__ == "__main__":
    import uvloop

    main({"SYSTEMS": SYSTEMS, **verbs(Taskiq, uvloop.new_event_loop)})
