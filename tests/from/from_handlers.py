"""Handlers that plain queues and processes find by their import path."""

from __future__ import annotations

import time
from typing import Any

from holdfast import Holdfast

app = Holdfast("memory://")


async def double(payload: dict[str, int]) -> dict[str, int]:
    return {name: 2 * number for name, number in payload.items()}


async def refuse(payload: Any) -> None:
    raise ValueError(f"cannot do {payload}")


@app.task(queue="quarters", executor="process", size=25)
def quarter() -> None: ...


@app.task(queue="whole", executor="process", timeout=0.2)
def never_ends() -> None:
    while True:
        time.sleep(60)


async def echo(payload: Any) -> Any:
    return payload
