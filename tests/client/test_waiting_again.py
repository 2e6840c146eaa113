"""Whoever waits again for a run, right after a wait in vain, hears of its end as if it were the first time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from places import STORES, place
from support import PATIENCE, burst, eventually

from holdfast import Holdfast, JobTimeout
from holdfast.client import wait
from holdfast.store import open_store


class Late:
    """A store whose `unwatch` is under way until somebody lets it go."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.go_on = asyncio.Event()
        self.watched = self.unwatched = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def watch(self, *args: Any) -> bool:
        found: bool = await self._store.watch(*args)
        self.watched += 1
        return found

    async def unwatch(self, *args: Any) -> None:
        await self.go_on.wait()
        await self._store.unwatch(*args)
        self.unwatched += 1


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(wait, "POLL", 10 * PATIENCE)  # what is not heard is not found by looking either
    with place(request.param, tmp_path) as url:
        yield url


async def gives_up(store: Late, waiting: Any, cancelled: bool) -> None:
    """Somebody has waited in vain, and the store is about to be told."""
    if cancelled:
        task = asyncio.create_task(waiting)
        await eventually(lambda: store.watched)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        with pytest.raises(JobTimeout):
            await waiting


@pytest.mark.parametrize("cancelled", [False, True], ids=["time-out", "cancelled"])
async def test_a_late_unwatch_does_not_end_a_new_watch(url: str, cancelled: bool) -> None:
    store: Any = Late(open_store(url))
    app = Holdfast(store=store)

    @app.task()
    async def work() -> int:
        return 7

    async with app:
        handle = await work.options(job_id="one").enqueue()
        await gives_up(store, handle.result(PATIENCE if cancelled else 0), cancelled)
        again = asyncio.create_task(handle.result(PATIENCE))
        for _ in range(5):  # time enough to watch again, for whoever does not wait
            await app.store.events(limit=1)
        store.go_on.set()
        while not store.unwatched:
            await app.store.events(limit=1)
        await app.store.events(limit=1)
        await burst(app)
        assert await again == 7


async def test_a_late_unwatch_does_not_end_the_watch_of_a_call(url: str) -> None:
    """A call of the same id watches with its enqueue."""
    store: Any = Late(open_store(url))
    app = Holdfast(store=store)

    @app.task()
    async def work() -> int:
        return 7

    async with app:
        handle = await work.options(job_id="one").enqueue()
        await gives_up(store, handle.result(0), False)
        again = asyncio.create_task(work.options(job_id="one").call())
        for _ in range(5):
            await app.store.events(limit=1)
        store.go_on.set()
        while not store.unwatched:
            await app.store.events(limit=1)
        await app.store.events(limit=1)
        await burst(app)
        assert await again == 7
