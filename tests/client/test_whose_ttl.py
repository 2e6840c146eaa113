"""Whose `result_ttl` holds, when the app that enqueues and the app that works say different things."""

from __future__ import annotations

from pathlib import Path

import pytest
from places import STORES, place
from support import burst

from holdfast import Holdfast, Job


def declare(app: Holdfast, **options: float) -> None:
    """The app knows two tasks; of one of them it says how long results are kept."""

    @app.task(queue="q", name="said", **options)  # type: ignore[arg-type]
    async def said(job: Job) -> None: ...

    @app.task(queue="q", name="silent")
    async def silent(job: Job) -> None: ...

    @app.task(queue="q", name="word", **options)  # type: ignore[arg-type]
    async def word(job: Job) -> None:
        job.keep_result(700)


@pytest.mark.parametrize("kind", [kind for kind in STORES if kind != "memory"])
async def test_job_and_task_by_the_producer_queue_and_app_by_the_worker(kind: str, tmp_path: Path) -> None:
    with place(kind, tmp_path) as url:
        producer, worker = Holdfast(url, result_ttl=11), Holdfast(url, result_ttl=500)
        declare(producer, result_ttl=300)
        declare(worker, result_ttl=400)
        async with producer, worker:
            tasks = producer.registry.tasks
            handles = {
                "task": await tasks["said"].enqueue(),
                "job": await tasks["said"].options(result_ttl=200).enqueue(),
                "app": await tasks["silent"].enqueue(),
                "handler": await tasks["word"].enqueue(),
            }
            await burst(worker)
            kept = {}
            for name, handle in handles.items():
                record = await handle.job()
                assert record.expires_at_ms is not None
                assert record.finished_at_ms is not None
                kept[name] = (record.expires_at_ms - record.finished_at_ms) / 1000
            assert kept == {"task": 300, "job": 200, "app": 500, "handler": 700}
            await worker.queue("q").set(result_ttl=600)
            later = await tasks["silent"].enqueue()
            await burst(worker)
            record = await later.job()
            assert (record.expires_at_ms or 0) - (record.finished_at_ms or 0) == 600_000, "an operator's word is above"
