"""One job kills its worker, again and again, and no other job pays for it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from places import place
from support import eventually

from holdfast import Holdfast
from holdfast.core.state import UNFINISHED, State

FOLDER = Path(__file__).parent
JOBS = 20
RUN = "import asyncio, poison_app; asyncio.run(poison_app.app.worker(lease=1.0, poll=0.1).run(signals=True))"


class Fleet:
    """Workers in processes of their own, each started again when it is killed."""

    def __init__(self, url: str, workers: int) -> None:
        self._environment = {**os.environ, "CHAOS_URL": url}
        self._workers = [self._start() for _ in range(workers)]
        self.killed = 0

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-c", RUN], env=self._environment, cwd=FOLDER, stderr=subprocess.DEVNULL
        )

    def replace_the_dead(self) -> None:
        for number, worker in enumerate(self._workers):
            if worker.poll() is not None:
                self.killed += 1
                self._workers[number] = self._start()

    def end(self) -> None:
        for worker in self._workers:
            worker.send_signal(signal.SIGTERM)
        for worker in self._workers:
            worker.wait(60)


async def is_all_over(app: Holdfast, fleet: Fleet) -> bool:
    fleet.replace_the_dead()
    return not sum(queue.counts[state] for queue in await app.queues() for state in UNFINISHED)


@pytest.mark.parametrize(("task", "workers", "crashes"), [("work", 1, 3), ("work", 3, 3), ("once", 1, 2)])
@pytest.mark.parametrize("kind", ["sqlite", "postgres", "redis"])
def test_only_the_job_that_kills_its_workers_fails(
    kind: str, task: str, workers: int, crashes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten slots, twenty jobs, one of them poison: the nineteen complete, and the poison kills as often as it may."""
    monkeypatch.syspath_prepend(str(FOLDER))
    import poison_app

    async def scenario(url: str) -> None:
        app = poison_app.make_app(url)
        async with app:
            job = app.registry.tasks[task]
            ids = [(await job.enqueue(number == 7)).id for number in range(JOBS)]
            fleet = Fleet(url, workers)
            try:
                await eventually(lambda: is_all_over(app, fleet), "every job is over", patience=90)
            finally:
                fleet.end()
            states = [(await app.status(task, id)).state for id in ids]
        assert [number for number, state in enumerate(states) if state is not State.COMPLETED] == [7]
        assert states[7] is State.FAILED
        assert fleet.killed == crashes

    with place(kind, tmp_path) as url:
        asyncio.run(scenario(url))
