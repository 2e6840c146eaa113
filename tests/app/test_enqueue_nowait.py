"""Enqueues that nobody waits for one by one."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from holdfast import ConfigError, Holdfast, PayloadError, PendingFull, Task
from holdfast.client import pending
from holdfast.errors import StoreBusy
from tests.support import Flaky, burst, run


class Post:
    """An app with one task, whose store goes wrong when told to."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.store: Any = Flaky(Holdfast("memory://").store)
        self.app = Holdfast(store=self.store)

        @self.app.task(queue="mail")
        async def send(to: str) -> None:
            self.sent.append(to)

        self.send: Task[[str], None] = send

    async def waiting(self) -> int:
        return (await self.app.count(queue="mail")).number

    def calls(self, name: str) -> int:
        return self.store.calls.count(name)


def test_jobs_are_in_the_store_when_their_futures_are_done_in_the_order_in_which_they_were_begun() -> None:
    async def story(post: Post) -> None:
        async with post.app:
            begun = [post.send.options(job_id=f"m{number}").enqueue_nowait("ann") for number in range(5)]
            assert not any(future.done() for future in begun)
            handles = await asyncio.gather(*begun)
            assert [(handle.id, handle.status) for handle in handles] == [(f"m{n}", "queued") for n in range(5)]
            runs = [handle.run for handle in handles]
            assert runs == sorted(runs)
            assert await post.waiting() == 5

    run(story(Post()))


def test_jobs_run_in_the_order_in_which_they_were_begun() -> None:
    async def story(post: Post) -> None:
        async with post.app:
            for number in range(400):
                post.send.enqueue_nowait(f"{number}")
            assert post.calls("enqueue") == 0
            await post.app.flush()
            assert await post.waiting() == 400
            await burst(post.app, "mail")
        assert post.sent == [f"{number}" for number in range(400)]

    run(story(Post()))


def test_the_end_of_the_app_waits_for_them(tmp_path: Path) -> None:
    async def story() -> None:
        app = Holdfast(f"sqlite:///{tmp_path / 'jobs.db'}")
        async with app:
            begun = [app.queue("mail").enqueue_nowait(number) for number in range(50)]
        assert [future.result().status for future in begun] == ["queued"] * 50

    run(story())


def test_what_failed_is_raised_by_its_future_and_by_flush_once() -> None:
    async def story(post: Post) -> None:
        async with post.app:
            post.store.refuse("enqueue", StoreBusy("no"), times=1)
            lost = post.send.enqueue_nowait("ann")
            with pytest.raises(StoreBusy):
                await lost
            kept = post.send.enqueue_nowait("bob")
            with pytest.raises(ExceptionGroup, match="enqueue_nowait that are not in the store: 1") as failed:
                await post.app.flush()
            assert [type(error) for error in failed.value.exceptions] == [StoreBusy]
            assert kept.result().status == "queued"
            await post.app.flush()

    run(story(Post()))


def test_the_end_of_the_app_raises_what_nobody_asked_for_and_closes() -> None:
    async def story(post: Post) -> None:
        await post.app.open()
        post.store.refuse("enqueue", StoreBusy("no"), times=1)
        post.send.enqueue_nowait("ann")
        with pytest.raises(ExceptionGroup):
            await post.app.close()
        assert post.app.loop is None

    run(story(Post()))


def test_a_future_that_is_cancelled_costs_the_others_nothing() -> None:
    async def story(post: Post) -> None:
        async with post.app:
            begun = [post.send.enqueue_nowait("ann") for _ in range(3)]
            begun[1].cancel()
            await post.app.flush()
            assert [future.cancelled() for future in begun] == [False, True, False]
            assert await post.waiting() == 2

    run(story(Post()))


def test_arguments_that_cannot_be_sent_are_refused_at_once() -> None:
    async def story(post: Post) -> None:
        async with post.app:
            with pytest.raises(PayloadError):
                post.send.enqueue_nowait({1, 2})  # type: ignore[arg-type]
            with pytest.raises(PayloadError):
                post.app.queue("plain").enqueue_nowait(b"bytes")

    run(story(Post()))


def test_there_is_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "MOST_UNAWAITED", 3)

    async def story(post: Post) -> None:
        async with post.app:
            for _ in range(3):
                post.send.enqueue_nowait("ann")
            with pytest.raises(PendingFull, match=r"3 jobs are on their way to the store.*app\.flush\(\)"):
                post.send.enqueue_nowait("bob")
            await post.app.flush()
            await post.send.enqueue_nowait("bob")
            assert await post.waiting() == 4

    run(story(Post()))


def test_it_is_refused_in_a_transaction() -> None:
    app = Holdfast("memory://")
    refused = app.queue("mail")
    with pytest.raises(ConfigError, match="cannot be part of a transaction"):
        refused.enqueue_nowait(1, connection=sqlite3.connect(":memory:"))


def test_it_is_refused_without_a_loop() -> None:
    post = Post()
    with pytest.raises(ConfigError, match=r"no event loop; use app\.sync"):
        post.send.enqueue_nowait("ann")
