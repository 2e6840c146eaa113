"""One worker of a fleet, inside a Spark task."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from ..app import Holdfast
from ..errors import ConfigError, StoreError
from ..worker import Worker
from .ledger import noted
from .place import app_in_executor

log = logging.getLogger("holdfast")
LISTEN = 0.5
"""How often, in seconds, a worker looks whether its fleet goes on."""


@dataclass(frozen=True)
class Post:
    """What every worker of a fleet is told."""

    app: str
    fleet: str
    queues: tuple[str, ...]
    slots: int
    lease: float
    drain: float
    folder: str
    local: bool

    @property
    def record(self) -> str:
        """The id of the record that says whether to go on."""
        return f"fleet:{self.fleet}"


def serve(post: Post, number: int) -> Iterator[dict[str, Any]]:
    """Yield what the worker did, once its fleet was told to stop; or why it could not even start."""
    if post.local:
        os.chdir(post.folder)  # the same machine: relative paths mean what they mean to the driver
    try:
        app = app_in_executor(post.app, post.folder)
        worker = app.worker(
            post.queues, slots=post.slots, lease=post.lease, drain=post.drain, name=f"{post.fleet}-{number}"
        )
        did = asyncio.run(_work(app, worker, post))
    except ConfigError as error:
        yield {"error": f"worker {number} of {post.fleet} on {socket.gethostname()}: {error}"}
        return
    yield {"name": worker.name, "host": socket.gethostname(), "did": did}


async def _work(app: Holdfast, worker: Worker, post: Post) -> Any:
    async with app:
        if await noted(app.store, post.record) is None:
            raise ConfigError(
                f"{app.store.url.partition('://')[0]}:// store of {post.app!r} is not the driver's here; "
                "let the app take its URL from what all machines share"
            )
        working = asyncio.create_task(worker.run())
        listening = asyncio.create_task(_listen(app, worker, post))
        try:
            return msgspec.to_builtins(await working)
        finally:
            listening.cancel()


async def _listen(app: Holdfast, worker: Worker, post: Post) -> None:
    """The worker stops once the record says so, or is gone, and at once when that says so, too."""
    asked = False
    while True:
        await asyncio.sleep(LISTEN)
        try:
            told = await noted(app.store, post.record)
        except StoreError as error:
            log.warning("this worker cannot ask whether its fleet goes on, and does: %s", error)
            continue
        if not asked and (told is None or not told["go"]):
            worker.stop()
            asked = True
        if told is not None and told.get("hurry"):
            worker.stop()
            return
