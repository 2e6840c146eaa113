"""The events of a job, also where the log is long and has no index."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Holdfast
from holdfast.web import history
from holdfast.web.history import JobHistory


async def test_a_log_that_takes_long_is_looked_at_from_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Holdfast("memory://") as app:
        await app.queue("q").enqueue(1, job_id="a")
        reader = JobHistory(app)
        found, older = await reader.events("q", "a")
        assert ([event.transition for event in found], older) == (["enqueue"], False)

        read = app.store.events
        asked: list[str | None] = []

        async def slow(position: str | None = None, **more: object) -> object:
            asked.append(position)
            if position is None:
                await asyncio.sleep(60)
            return await read(position, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(app.store, "events", slow)
        monkeypatch.setattr(history, "AT_ONCE", 0.01)
        found, older = await reader.events("q", "a")
        assert ([event.transition for event in found], older) == (["enqueue"], True)
        await reader.events("q", "a")
        assert asked.count(None) == 1
        assert reader.is_slow
