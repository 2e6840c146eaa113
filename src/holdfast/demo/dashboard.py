"""The dashboard of the demo: `holdfast serve` beside it, and a shop that stays open to be looked at."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from rich.console import Console

from ..distribution import pip_install
from ..errors import HoldfastError
from .worker_processes import FOLDER, start_workers, stop_workers

PORT = 8080
PATIENCE = 20.0
PAUSE = 0.5
"""Seconds between two customers."""
WORKERS = ("worker-4", "worker-5")


class ServingLine(msgspec.Struct):
    """What `holdfast serve --json` says of itself."""

    address: str


@asynccontextmanager
async def dashboard(folder: Path, console: Console) -> AsyncIterator[str | None]:
    """Yield the address of a dashboard that is there while the block lasts, or `None`, after a line that says why."""
    process = await _start(folder, PORT) or await _start(folder, 0)
    if process is None:
        _say(console, f"The dashboard is left out: {pip_install('cli', 'web')}")
        yield None
        return
    server, address = process
    _say(console, f"Dashboard: {address}")
    try:
        yield address
    finally:
        if server.returncode is None:
            server.terminate()
        await server.wait()


async def _start(folder: Path, port: int) -> tuple[asyncio.subprocess.Process, str] | None:
    """Start a server on a port, 0 being any that is free; return `None` when it does not start."""
    command = ("serve", "holdfast.demo.shop:app", "--port", str(port), "--lake", str(folder / "lake"), "--json")
    with (folder / "dashboard.log").open("ab") as log:
        server = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "holdfast", *command, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=log, env={**os.environ, FOLDER: str(folder)},
        )  # fmt: skip
    assert server.stdout is not None
    line = await asyncio.wait_for(server.stdout.readline(), PATIENCE)
    if not line:
        await server.wait()
        return None
    return server, msgspec.json.decode(line, type=ServingLine).address


async def keep_open(folder: Path, console: Console) -> None:
    """Let customers come and workers work, until somebody interrupts."""
    from .shop import app

    async with app:
        workers = await start_workers(WORKERS, folder)
        _say(console, "The shop stays open for you to look at. Ctrl-C closes it.")
        try:
            for number in itertools.count(1):
                await _customer(number)
                await asyncio.sleep(PAUSE)
        finally:
            await stop_workers(workers)


async def _customer(number: int) -> None:
    """Enqueue what one customer causes; now and then a card has expired."""
    from .shop import charge_card, import_order, resize_photo, send_receipt

    card = "expired" if random.random() < 0.1 else "good"
    try:
        await charge_card.options(job_id=f"late-charge-{number}").enqueue(f"late-{number}", 1000 + number, card=card)
        await send_receipt.options(job_id=f"late-receipt-{number}").enqueue(f"late-{number}@example.com")
        await import_order.enqueue_many(import_order.args(line, 100 + line) for line in range(random.randrange(1, 12)))
        if number % 3 == 0:
            await resize_photo.options(job_id=f"late-photo-{number}").enqueue(f"late-{number}.jpg", 256)
    except HoldfastError:  # the store is busy: the next customer comes soon
        return


def _say(console: Console, line: str) -> None:
    console.print(line, highlight=False, markup=False, soft_wrap=True)
