"""Ends that come while the loop is busy with other handlers are settled together."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support import burst

from holdfast import Holdfast, State
from holdfast.worker.turns import gathering

JOBS = 40


@pytest.fixture
def settled(app: Holdfast, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many jobs each call settled."""
    counts: list[int] = []
    inner = app.store.settle_and_claim

    async def counted(session: Any, settlements: Any, *given: Any, **options: Any) -> Any:
        if settlements:
            counts.append(len(settlements))
        return await inner(session, settlements, *given, **options)

    monkeypatch.setattr(app.store, "settle_and_claim", counted)
    return counts


async def work(app: Holdfast) -> None:
    """Run jobs of which one ends in each pass of the loop, eight at a time."""

    @app.task
    async def count(number: int) -> None:
        for _ in range(2 + number % 8):
            await asyncio.sleep(0)

    async with app:
        await count.enqueue_many(count.args(number) for number in range(JOBS))
        await burst(app, slots=8)
        assert {job.state for job in (await app.jobs(limit=JOBS)).jobs} == {State.COMPLETED}


async def test_a_busy_loop_settles_several_ends_in_one_call(
    app: Holdfast, settled: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "IDLE_PASS", 0.0)
    monkeypatch.setattr(gathering, "MOST_SECONDS", 60.0)
    await work(app)
    assert sum(settled) == JOBS
    assert sorted(settled)[len(settled) // 2] >= 4, "half of the slots, and never all of them: others go on meanwhile"


async def test_a_loop_with_nothing_else_to_do_settles_at_once(
    app: Holdfast, settled: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[float] = []
    monkeypatch.setattr(gathering, "IDLE_PASS", 60.0)
    monkeypatch.setattr(gathering, "perf_counter", lambda: passes.append(0.0) or 0.0)
    await work(app)
    assert sum(settled) == JOBS
    assert len(passes) <= 2 * len(settled), "one pass for each call, which tells that the loop is idle"


async def test_an_end_waits_no_longer_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(number * 0.004 for number in range(100))
    monkeypatch.setattr(gathering, "perf_counter", lambda: next(times))
    await gathering.gather(lambda: False)
    assert next(times) == pytest.approx(0.016), "busy passes of 4 ms: the third is past 10 ms"
