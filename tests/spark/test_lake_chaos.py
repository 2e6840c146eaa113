"""Workers in processes of their own are killed while jobs run; the lake then says what the store says, row by row."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from lake_check import check, check_store, rows
from pyspark.sql import SparkSession
from spark_places import fresh
from support import until

from holdfast import Event, Holdfast
from holdfast.core.state import UNFINISHED
from holdfast.spark.lake import Lake
from holdfast.store.contract import Filter, NewJob

CHAOS = Path(__file__).parents[1] / "chaos"
RUN = "import asyncio, chaos_app; asyncio.run(chaos_app.app.worker(slots=10, lease=1.0, poll=0.2).run(signals=True))"
KILLS = 2
PATIENCE = 90.0
pytestmark = pytest.mark.timeout(300)


class Attack:
    """Two workers, one of which is killed again and again, and the ledger that their handlers write."""

    def __init__(self, url: str, folder: Path) -> None:
        self.app = Holdfast(url)
        self.ledger = folder / "ledger"
        self._environment = {**os.environ, "CHAOS_URL": url, "CHAOS_LEDGER": str(self.ledger)}
        self._workers: list[subprocess.Popen[bytes]] = []
        self._count = 0

    def __enter__(self) -> Attack:
        self.app.sync.__enter__()
        self._workers = [self._started() for _ in range(2)]
        return self

    def __exit__(self, *exc: object) -> None:
        for worker in self._workers:
            worker.send_signal(signal.SIGTERM)
        for worker in self._workers:
            worker.wait(60)
        self.app.sync.close()

    def _started(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", RUN]
        return subprocess.Popen(command, env=self._environment, cwd=CHAOS, stderr=subprocess.DEVNULL)

    def strike(self, jobs: int = 150) -> None:
        """More jobs are there, and a worker was killed in the midst of them."""
        numbers = range(self._count, self._count + jobs)
        self._count += jobs
        new = [NewJob(id=f"job-{n}", task="work", payload=b'{"number":%d}' % n, key=f"k{n % 3}") for n in numbers]
        self.app.sync(self.app.store.enqueue("work", new))
        ran = self._ran()
        until(lambda: self._ran() > ran + 20, patience=PATIENCE)
        self._workers[0].kill()
        self._workers[0].wait()
        self._workers[0] = self._started()

    def _ran(self) -> int:
        return self.ledger.read_bytes().count(b"ran ") if self.ledger.exists() else 0

    def is_over(self) -> bool:
        queues = self.app.sync(self.app.queues())
        return not any(queue.counts[state] for queue in queues for state in UNFINISHED)

    def events(self) -> list[Event]:
        return list(self.app.sync.each(self.app.events()))


@pytest.mark.parametrize("kind", ["sqlite", "redis", "postgresql"])
def test_after_workers_were_killed_the_lake_is_as_the_store(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    with Attack(fresh(kind, tmp_path), tmp_path) as attack:
        lake = Lake(tmp_path / "lake", attack.app, spark)
        for _ in range(KILLS):
            attack.strike()
            assert lake.read_new() is not None, "the lake grows while they run"
        until(attack.is_over, patience=PATIENCE)
        lake.read_new()
        jobs = attack.app.sync(attack.app.store.jobs(Filter(), limit=2000)).jobs
        assert len(jobs) == len(rows(lake.path, "jobs")) > 150 * KILLS, "failed ones have been rescued"
        assert sum(job.counters.stalls for job in jobs) > 0, "somebody was killed at work"
        check(lake.path, attack.events())
        check_store(lake.path, jobs)
