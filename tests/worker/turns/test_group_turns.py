"""Every group of queues gets its turn: a backlog for the slots leaves the processes their share, and the other way."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import places
import pytest
from support import working


@pytest.fixture(params=["sqlite", "redis", "postgres"])
def tasks(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of handlers, on a fresh place of each store."""
    with places.place(request.param, tmp_path) as url:
        monkeypatch.setenv("HOLDFAST_TEST_URL", url)
        monkeypatch.setenv("HOLDFAST_TEST_LEDGER", str(tmp_path / "ledger"))
        sys.modules.pop("process_tasks", None)
        yield importlib.import_module("process_tasks")


async def test_a_process_queue_is_served_beside_a_backlog_that_never_ends(tasks: ModuleType) -> None:
    """With a queue that has never had a job, those that take slots seem to be served least recently for ever."""
    tasks.app.queue("quiet")
    async with working(tasks.app, "quiet", "endless", "beside", slots=10, pool=1, drain=0, lease=60):
        await tasks.endless.enqueue_many(tasks.endless.args(each % 100) for each in range(1_000))
        for wave in range(3):  # a queue that had nothing for a while is asked again
            jobs = [await tasks.beside.enqueue(wave) for _ in range(12)]
            assert [await job.result(timeout=30) for job in jobs] == [wave] * 12
        assert (await tasks.app.queue("endless").jobs(state="waiting", limit=1)).jobs, "the backlog is still there"
