"""A lease per task, the renewal of leases, and a pause between claims."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import places
import pytest
from support import Running, burst, eventually, working

from holdfast import ConfigError, Holdfast


def app_with(url: str = "memory://", **leases: Any) -> Holdfast:
    """Return an app with a task for each of these leases."""
    app = Holdfast(url)
    for name, lease in leases.items():

        @app.task(name=name, lease=lease)
        async def work() -> None: ...

    return app


async def session_of(app: Holdfast, **options: Any) -> Any:
    async with working(app, **options) as running:
        (info,) = await app.workers()
        heartbeat = running.worker._run.life.heartbeat
        assert heartbeat is not None
        return info.session.lease_ms, heartbeat._interval, heartbeat._wedged_after


@pytest.mark.parametrize(
    ("leases", "options", "found"),
    [
        ({"plain": None}, {}, (15_000, 5.0, 60.0)),
        ({"patient": 60}, {}, (60_000, 20.0, 240.0)),
        ({"patient": 60, "plain": None}, {}, (60_000, 20.0, 240.0)),
        ({"quick": 3}, {}, (3000, 1.0, 12.0)),
        ({"quick": 3, "plain": None}, {}, (15_000, 5.0, 60.0)),
        ({"quick": 3, "plain": None}, {"lease": 6}, (6000, 2.0, 24.0)),
        ({"patient": 60}, {"lease": 90, "heartbeat": 4, "wedged_after": 7}, (90_000, 4.0, 7.0)),
        ({"plain": None}, {"heartbeat": 7.5}, (15_000, 7.5, 60.0)),
    ],
)
async def test_a_session_has_the_lease_of_the_most_patient_of_its_tasks(
    leases: dict[str, Any], options: dict[str, Any], found: tuple[int, float, float]
) -> None:
    assert await session_of(app_with(**leases), **options) == found


async def test_a_queue_may_say_it_for_its_tasks_and_each_for_itself() -> None:
    app = Holdfast("memory://")
    app.queue("slow", lease=40)

    @app.task(queue="slow")
    async def by_the_queue() -> None: ...

    assert (await session_of(app))[0] == 40_000

    @app.task(queue="slow", lease=80)
    async def by_itself() -> None: ...

    assert (await session_of(app))[0] == 80_000


async def test_a_plain_queue_has_a_lease_too() -> None:
    app = Holdfast("memory://")
    app.queue("plain", handler="plain_handlers:echo", lease=25)
    assert (await session_of(app))[0] == 25_000


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"lease": 0.1}, "lease=0.1: at least 0.3 s"),
        (
            {"lease": 30},
            "lease=30: task 'patient' has a lease of 60 s, and would be taken over before that: give this worker a "
            "lease that is as long, or none, or queues without that task",
        ),
        (
            {"heartbeat": 31},
            "heartbeat=31: from 0.05 s to half of the lease, which is 60 s: a heartbeat that is lost must not cost the "
            "lease",
        ),
        ({"heartbeat": 0}, "heartbeat=0: from 0.05 s to half of the lease"),
        ({"claim_interval": -1}, "claim_interval"),
    ],
)
def test_what_cannot_be_kept_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)):
        app_with(patient=60).worker(**options)


@pytest.mark.parametrize("lease", [0.2, -1, "x"])
def test_a_task_or_queue_with_a_lease_that_nobody_can_keep_is_refused(lease: Any) -> None:
    with pytest.raises(ConfigError, match="lease"):
        app_with(wrong=lease)
    with pytest.raises(ConfigError, match="lease"):
        Holdfast("memory://").queue("wrong", lease=lease)


async def test_what_joins_with_a_longer_lease_is_refused_in_words(caplog: pytest.LogCaptureFixture) -> None:
    app = app_with(plain=None)
    async with working(app):

        @app.task(queue="late", lease=90)
        async def late() -> None: ...

        told = "task 'late' has a lease of 90 s, and this worker one of 15 s; start it anew"
        await eventually(lambda: told in caplog.text)


# --- a pause between claims


@pytest.mark.parametrize("kind", places.STORES)
async def test_a_gentle_worker_claims_no_more_often_than_it_is_told(kind: str, tmp_path: Path) -> None:
    """With so long a pause there is one claim, of as many jobs as there are slots; what ends is told meanwhile."""
    with places.place(kind, tmp_path) as url:
        await _claims_no_more_often_than_it_is_told(Holdfast(url))


async def _claims_no_more_often_than_it_is_told(app: Holdfast) -> None:
    done: list[int] = []

    @app.task()
    async def work(number: int) -> None:
        done.append(number)

    async with app:
        handles = [await work.enqueue(number) for number in range(7)]
        async with working(app, slots=3, claim_interval=600, poll=0.05) as running:
            await eventually(lambda: len(done) == 3)
            for handle in handles[:3]:
                await handle.result()
            assert (await app.queue("default").info()).counts["waiting"] == 4  # type: ignore[union-attr]
            other = Running(app.worker(slots=1))
            for handle in handles[3:]:
                await handle.result()
            await other.end()
            report = await running.end()
    assert report.completed == 3
    assert sorted(done) == list(range(7))


async def test_a_gentle_worker_claims_at_once_on_a_machine_that_has_just_started(app: Holdfast) -> None:
    @app.task()
    async def work() -> None: ...

    async with app:
        handle = await work.enqueue()
        async with working(app, claim_interval=time.monotonic() + 600):
            await handle.result()


async def test_a_gentle_worker_drains_a_burst(app: Holdfast) -> None:
    @app.task()
    async def work() -> None: ...

    async with app:
        for _ in range(5):
            await work.enqueue()
        assert (await burst(app, slots=2, claim_interval=0.02, poll=0.05)).completed == 5


async def test_a_gentle_worker_is_not_woken_in_the_place_of_others(app: Holdfast) -> None:
    @app.task()
    async def work() -> None: ...

    async with working(app, claim_interval=600) as gentle:
        other = Running(app.worker())
        await eventually(lambda: other.worker.healthy)
        for _ in range(10):
            await work.call()
        assert (await other.end()).completed == 10
        assert (await gentle.end()).completed == 0
