"""Handlers that plain queues name by their import path."""

from __future__ import annotations

from typing import Any

from holdfast import Job


async def echo(payload: Any) -> Any:
    return {"got": payload}


def echo_in_thread(payload: Any, job: Job) -> Any:
    return [payload, job.id, job.task]


async def broken(payload: Any) -> None:
    raise ValueError(f"cannot do {payload}")


class Nested:
    @staticmethod
    async def inner(payload: Any) -> str:
        return "inner"


NOT_CALLABLE = 5
