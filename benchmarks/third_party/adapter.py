"""Holdfast's side of the contract: `python -m benchmarks.third_party.adapter`, with DATABASE_URL in the environment."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.app import QUEUE, run
from benchmarks.script import say
from benchmarks.third_party.contract import iso_now, steady

MANIFEST = Path(__file__).with_name("adapter.json")


class HoldfastSystem:
    """Holdfast by its public API alone."""

    def __init__(self, url: str, slots: int) -> None:
        from holdfast import Holdfast

        self.app = Holdfast(url)
        self._slots = slots
        self._handle: Callable[[str], Awaitable[None]] | None = None

        @self.app.task(queue=QUEUE)
        async def noop(data: str) -> None:
            assert self._handle is not None
            await self._handle(data)

        self._noop: Any = noop

    async def many(self, data: str, count: int) -> None:
        await self._noop.enqueue_many(self._noop.args(data) for _ in range(count))

    async def work(self, handle: Callable[[str], Awaitable[None]]) -> None:
        self._handle = handle
        await self.app.worker(queues=[QUEUE], slots=self._slots).run(signals=False)

    async def depth(self) -> int:
        return sum(queue.counts["waiting"] for queue in await self.app.queues())


async def main() -> None:
    url = os.environ["DATABASE_URL"].replace("postgres://", "postgresql://", 1)
    system = HoldfastSystem(url, int(os.environ.get("WORKER_COUNT", "32")))
    async with system.app:
        await system.app.queues()  # the schema is there
        told = json.loads(MANIFEST.read_text())
        fields = {name: told[name] for name in ("system", "event_tables", "extensions")}
        name = urlsplit(url).path.lstrip("/") or told["db_name"]
        say(kind="descriptor", **fields, version=version("holdfast-queue"), schema_version="", db_name=name,
            started_at=iso_now())  # fmt: skip
        await steady(system, told["system"], system.depth)


if __name__ == "__main__":
    run(main())
