"""arq on Redis: one worker with 100 slots."""

from __future__ import annotations

from typing import Any

from benchmarks.peers._asyncio import Handler, Peer, verbs
from benchmarks.script import main
from benchmarks.system import PAYLOAD, System

SYSTEMS = (
    System(
        name="arq",
        script=__name__,
        store="redis",
        packages=("arq", "hiredis"),
        measures=("enqueue", "drain", "latency", "call", "sleep", "footprint", "recovery"),
        most=(("drain", 5_000), ("enqueue", 5_000)),
        note="max_jobs 100, poll_delay 0.01 (0.5 as it comes), results polled every 5 ms; no bulk",
        lacks="no limits over all workers; a killed worker's job waits for its time-out",
    ),
)


class Arq(Peer):
    async def open(self) -> None:
        from arq import create_pool

        self.pool: Any = await create_pool(self._settings())

    def _settings(self) -> Any:
        from arq.connections import RedisSettings

        return RedisSettings.from_dsn(self.place.url)

    async def close(self) -> None:
        await self.pool.aclose()

    async def one(self, data: str) -> Any:
        return await self.pool.enqueue_job("noop", data)

    async def call(self) -> None:
        await (await self.one(PAYLOAD)).result(timeout=30, poll_delay=0.005)

    async def work(self, handle: Handler) -> None:
        from arq.worker import Worker, func

        async def noop(context: Any, data: str) -> None:
            await handle(data)

        made = Worker(
            [func(noop, name="noop")],
            redis_settings=self._settings(),
            max_jobs=100,
            poll_delay=0.01,
            handle_signals=False,
        )
        await made.async_run()


if __name__ == "__main__":
    main({"SYSTEMS": SYSTEMS, **verbs(Arq)})
