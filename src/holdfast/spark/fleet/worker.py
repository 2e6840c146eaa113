"""One worker of a fleet, inside a Spark task."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from ...app.app import Holdfast
from ...errors import ConfigError, StoreError
from ...telemetry.line_handler import FormatName, log_to_stderr
from ...worker import Report, Worker
from ..app_code import app_in_executor
from ..records import read_record
from ..store_url import scheme_of

log = logging.getLogger("holdfast")
LISTEN = (0.1, 0.5)
"""How often, in seconds, a worker asks whether its fleet is to stop: the least and the most, by the fleet's size."""
ASKED = 20
"""About so often in a second the workers of a small fleet ask, all together."""


class FleetSignal(msgspec.Struct):
    """What the record of a fleet tells its workers."""

    go: bool
    """False: stop, after a drain."""
    hurry: bool = False
    """Stop without a drain."""


@dataclass(frozen=True)
class FleetSettings:
    """What every worker of a fleet needs to know."""

    app: str
    fleet: str
    queues: tuple[str, ...]
    slots: int
    lease: float | None
    drain: float
    folder: str
    local: bool
    listen: float
    """How often, in seconds, a worker asks whether the fleet is to stop."""
    log_jobs: bool = True
    log_level: str | None = None
    """From which level on its workers log to the stderr of their executor; `None` leaves logs as they are there."""
    log_format: FormatName = "human"

    @property
    def record(self) -> str:
        """The id of the record with the fleet's signal."""
        return f"fleet:{self.fleet}"


class TaskReply(msgspec.Struct, kw_only=True):
    """What a Spark task tells the driver: what its worker did, or why it could not start."""

    name: str = ""
    host: str = ""
    did: Report | None = None
    error: str | None = None


def listen_seconds(workers: int) -> float:
    """Return how often a worker of so large a fleet asks: a small one stops soon, a large one spares the store."""
    least, most = LISTEN
    return min(most, max(least, workers / ASKED))


def run_worker(settings: FleetSettings, number: int) -> Iterator[bytes]:
    """Yield a `TaskReply`, as JSON, once the fleet was told to stop or the worker could not start."""
    if settings.local:
        os.chdir(settings.folder)  # the same machine: relative paths mean what they mean to the driver
    host = socket.gethostname()
    if settings.log_level is not None:
        log_to_stderr(settings.log_level.upper(), settings.log_format)
    try:
        app = app_in_executor(settings.app, settings.folder)
        worker = app.worker(
            settings.queues,
            slots=settings.slots,
            lease=settings.lease,
            drain=settings.drain,
            name=f"{settings.fleet}-{number}",
            log_jobs=settings.log_jobs,
        )
        did = asyncio.run(_work(app, worker, settings))
    except ConfigError as error:
        yield msgspec.json.encode(TaskReply(error=f"worker {number} of {settings.fleet} on {host}: {error}"))
        return
    yield msgspec.json.encode(TaskReply(name=worker.name, host=host, did=did))


async def _work(app: Holdfast, worker: Worker, settings: FleetSettings) -> Report:
    async with app:
        if await _signal(app, settings) is None:
            raise ConfigError(
                f"{scheme_of(app.store.url)}:// store of {settings.app!r} is not the driver's here; "
                "let the app take its URL from what all machines share"
            )
        working = asyncio.create_task(worker.run())
        listening = asyncio.create_task(_listen(app, worker, settings))
        try:
            return await working
        finally:
            listening.cancel()


async def _listen(app: Holdfast, worker: Worker, settings: FleetSettings) -> None:
    """Stop the worker once the record says so or is gone; stop it without a drain when the record says hurry."""
    asked = False
    while True:
        await asyncio.sleep(settings.listen)
        try:
            signal = await _signal(app, settings)
        except StoreError as error:
            log.warning("store_away: this worker cannot ask whether its fleet is to stop, and runs on: %s", error)
            continue
        if not asked and (signal is None or not signal.go):
            worker.stop()
            asked = True
        if signal is not None and signal.hurry:
            worker.stop(drain=False)
            return


async def _signal(app: Holdfast, settings: FleetSettings) -> FleetSignal | None:
    found = await read_record(app.store, settings.record)
    return None if found is None else msgspec.json.decode(found, type=FleetSignal)
