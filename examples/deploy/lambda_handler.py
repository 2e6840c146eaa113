"""A function of a serverless platform that runs what waits, for as long as it may: for a timer, or for producers."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from shop import app

MARGIN = 15.0
"""Seconds before the end at which the worker stops claiming; its drain and grace must fit into them."""


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Run what waits, until nothing is left or the time is nearly up; say what was done."""
    return asyncio.run(work(context.get_remaining_time_in_millis() / 1000 - MARGIN))


async def work(seconds: float) -> dict[str, Any]:
    """Run jobs for so many seconds at most. What is not done by then is handed back, and costs no failure."""
    async with app:
        worker = app.worker(slots=20, drain=5, grace=2)
        asyncio.get_running_loop().call_later(seconds, worker.stop)
        return msgspec.to_builtins(await worker.run(burst=True))
