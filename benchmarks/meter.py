"""What a call costs the store itself, whatever the machine does meanwhile."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from benchmarks.processor import children

STEP = 10


class Meter(Protocol):
    """EnqueueCounts between `start` and `read`."""

    unit: str

    async def start(self) -> None: ...

    async def read(self) -> float: ...


class SqliteSteps:
    """Thousands of instructions of SQLite's virtual machine: they count rows touched."""

    unit = "steps, thousands"

    def __init__(self, connection: Any) -> None:
        self._count = 0
        connection.set_progress_handler(self._tick, STEP)

    def _tick(self) -> int:
        self._count += STEP
        return 0

    async def start(self) -> None:
        self._count = 0

    async def read(self) -> float:
        return self._count / 1000


class RedisTime:
    """Microseconds that the server spent in our functions, by INFO commandstats."""

    unit = "server, us"

    def __init__(self, client: Any) -> None:
        self._client = client
        self._before = 0.0

    async def start(self) -> None:
        self._before = await self._spent()

    async def read(self) -> float:
        return await self._spent() - self._before

    async def _spent(self) -> float:
        return spent(await self._client.info("commandstats"))


class PostgresTime:
    """Microseconds that the server's processes were running, by the kernel's books: those of others count, too."""

    unit = "server, us"

    def __init__(self, server: int) -> None:
        self._server = server
        self._before: dict[int, int] = {}

    async def start(self) -> None:
        self._before = self._running()

    async def read(self) -> float:
        return sum(now - self._before.get(pid, now) for pid, now in self._running().items()) / 1000

    def _running(self) -> dict[int, int]:
        """Nanoseconds by process; the server has one thread in each."""
        found = {}
        for pid in children(self._server):
            with suppress(OSError):  # it has just ended
                found[pid] = int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
        return found


def spent(commandstats: dict[str, dict[str, float]]) -> float:
    """Microseconds in calls of functions so far."""
    return float(commandstats.get("cmdstat_fcall", {}).get("usec", 0))
