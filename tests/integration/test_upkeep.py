"""Upkeep keeps step with the work, on every store, and tells of the dead letters that retention takes."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from places import STORES, place
from support import eventually, working

from holdfast import Happening, Holdfast, Permanent, Retention
from holdfast.worker import upkeep

HISTORY = 300
JOBS = 3_000


@pytest.mark.parametrize("kind", STORES)
async def test_the_log_keeps_its_length_at_any_rate(kind: str, tmp_path: Path) -> None:
    """The next round of upkeep is minutes away: only what keeps step with the jobs can trim."""
    with place(kind, tmp_path) as url:
        app = Holdfast(f"{url}{'&' if '?' in url else '?'}history={HISTORY}")

        @app.task(queue="mail")
        async def work() -> None: ...

        async with working(app, lease=600, slots=100) as running:
            await app.enqueue_many(work.args() for _ in range(JOBS))
            await eventually(lambda: running.worker._pump.report.completed == JOBS)
            longest = HISTORY + 4 * upkeep.STEP + 2 * 100
            await eventually(lambda: log_length_at_most(app, longest), patience=10)


async def log_length_at_most(app: Holdfast, longest: int) -> bool:
    return len((await app.store.events(limit=JOBS * 4)).events) <= longest


async def test_dead_letters_that_retention_takes_are_warned_of_and_told_to_hooks(
    app: Holdfast, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "holdfast")
    told: list[Happening] = []
    app.queue("mail", retention=Retention(failed_count=2), result_ttl=0.001)

    @app.task(queue="mail")
    async def work() -> None:
        raise Permanent("no such address")

    app.on("expire")(told.append)
    async with working(app, lease=0.3):
        await app.enqueue_many(work.args() for _ in range(5))
        await eventually(lambda: sum("removed" in happening.detail for happening in told))
        await eventually(lambda: "3 for their number" in caplog.text or caplog.text.count("for their number") > 1)
        assert len((await app.queue("mail").jobs()).jobs) == 2
    assert all("failed jobs were removed" in happening.detail for happening in told)
    assert "queue mail: failed jobs were removed: " in caplog.text
