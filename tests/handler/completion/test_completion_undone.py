"""The end of `job.complete()`'s block is the commit: what goes wrong up to it undoes every part of the completion."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from places import place
from support import burst

from holdfast import Continued, Holdfast, Job, Retry, State

Spoil = Callable[[Any], Awaitable[None]]


async def _raises(tx: Any) -> None:
    raise ValueError("no")


async def _breaks_the_commit(tx: Any) -> None:
    """The completion is done, and then the database refuses to commit it."""
    await tx.connection.execute(
        "CREATE TEMPORARY TABLE once (n integer UNIQUE DEFERRABLE INITIALLY DEFERRED) ON COMMIT DROP"
    )
    await tx.connection.execute("INSERT INTO once VALUES (1), (1)")


@pytest.mark.parametrize(
    ("kind", "spoil"),
    [("sqlite", _raises), ("postgres", _raises), ("postgres", _breaks_the_commit)],
    ids=["sqlite raise", "postgres raise", "postgres commit"],
)
async def test_a_completion_that_is_not_committed_leaves_no_trace(kind: str, spoil: Spoil, tmp_path: Path) -> None:
    with place(kind, tmp_path) as url:
        app = Holdfast(url, retry=Retry(failures=2, initial=0))
        seen: list[Any] = []

        @app.task(queue="next")
        async def pack(n: int) -> int:
            return n

        @app.task()
        async def after() -> None:
            return None

        @app.task()
        async def pay(job: Job) -> Continued[int]:
            waiting = await app.status("default", "after")
            seen.append((waiting.state, len((await app.jobs(queue="next")).jobs)))
            async with job.complete() as tx:
                made = tx.result = job.continue_with(pack, job.attempt)
                await after.options(job_id=f"own-{job.attempt}", connection=tx.connection).enqueue()
                if job.attempt == 1:
                    await spoil(tx)
            return made

        async with app:
            handle = await pay.options(job_id="one").enqueue()
            await after.options(job_id="after", blockers=[handle]).enqueue()
            await burst(app)
            assert await handle.result() == 2
            assert seen == [(State.BLOCKED, 0), (State.BLOCKED, 0)]
            assert (await app.status("default", "after")).state is State.COMPLETED
            assert {job.id for job in (await app.jobs(queue="default")).jobs} == {"one", "after", "own-2"}
            errors = [event.error_type async for event in app.events() if event.transition == "retry"]
    assert errors == ["psycopg.errors.UniqueViolation" if spoil is _breaks_the_commit else "ValueError"]
