"""Plain queues: a handler by import path, and a payload that is whatever it is."""

from __future__ import annotations

from typing import Any

import pytest
from support import burst

from holdfast import Holdfast, Job


def payload_only(payload: Any) -> Any:
    return payload


async def job_first(job: Job, payload: Any) -> list[Any]:
    return [job.id, payload]


def job_last(payload: Any, job: Job) -> list[Any]:
    return [job.id, payload]


def job_by_keyword(payload: Any, /, *, job: Job) -> list[Any]:
    return [job.id, payload]


@pytest.mark.parametrize("handler", ["job_first", "job_last", "job_by_keyword"])
async def test_a_plain_handler_may_ask_for_its_job_in_any_place(app: Holdfast, handler: str) -> None:
    queue = app.queue("plain", handler=f"{__name__}:{handler}")
    async with app:
        handle = await queue.enqueue({"a": 1}, job_id="one")
        await burst(app)
        assert await handle.result() == ["one", {"a": 1}]


async def test_a_plain_handler_gets_the_payload_as_it_is(app: Holdfast) -> None:
    queue = app.queue("plain", handler=f"{__name__}:payload_only")
    async with app:
        handles = [await queue.enqueue(payload) for payload in ({"a": 1}, [1, 2], None, "text")]
        await burst(app)
        assert [await handle.result() for handle in handles] == [{"a": 1}, [1, 2], None, "text"]
