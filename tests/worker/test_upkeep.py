"""Upkeep keeps step with the work, on every store, and tells of the dead letters that retention takes."""

from __future__ import annotations

import logging
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from places import STORES, place
from support import PATIENCE, WorkerProcess, eventually, ledger_lines, processes, working
from worker_process import make_app

from holdfast import Holdfast, HookEvent, Permanent, Retention
from holdfast.worker.upkeep import upkeep

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
            await eventually(lambda: running.worker._run.report.completed == JOBS)
            longest = HISTORY + 4 * upkeep.STEP + 2 * 100
            await eventually(lambda: log_length_at_most(app, longest), patience=10)


async def log_length_at_most(app: Holdfast, longest: int) -> bool:
    return len((await app.store.events(limit=JOBS * 4)).events) <= longest


async def test_dead_letters_that_retention_takes_are_warned_of_and_told_to_hooks(
    app: Holdfast, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "holdfast")
    told: list[HookEvent] = []
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


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "redis"])
@pytest.mark.parametrize("first", ["survivor", "victim"])
async def test_a_dead_workers_own_lease_decides_when_others_take_over(kind: str, first: str, tmp_path: Path) -> None:
    """The survivor's own lease would have it look every three minutes."""
    ledger, release = tmp_path / "ledger", tmp_path / "release"
    with place(kind, tmp_path) as url:
        app = make_app(url, ledger)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(app)
            survivor = working(app, lease=600, slots=1)
            if first == "survivor":
                await stack.enter_async_context(survivor)
                await app.registry.tasks["hang"].enqueue(str(release))  # it has no room for another
                await eventually(lambda: len(ledger_lines(ledger)) == 1)
            victim = WorkerProcess(url, ledger, slots=1, lease=1.0)
            stack.enter_context(processes(victim))
            handle = await app.registry.tasks["hang"].enqueue(str(release))
            await eventually(lambda: victim.pid in {pid for *_, pid in ledger_lines(ledger)})
            if first == "victim":
                await stack.enter_async_context(survivor)
            victim.signal(signal.SIGKILL)
            victim.process.wait()
            release.touch()
            assert await handle.result(timeout=4 * PATIENCE) == "done"
            assert (await handle.job()).counters.stalls == 1


@pytest.mark.parametrize(
    ("leases", "pause"),
    [
        ([], upkeep.LONGEST),
        ([None], upkeep.LONGEST),
        ([None, 600_000], upkeep.LONGEST),
        ([1000, 60_000], 0.5),
        ([60_000, None, 400], 0.2),
        ([10], upkeep.SHORTEST),
    ],
)
def test_the_next_look_is_well_before_the_next_lease_is_over(leases: list[int | None], pause: float) -> None:
    assert upkeep.until_next_look(leases) == pause
