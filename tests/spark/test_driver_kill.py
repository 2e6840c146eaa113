"""Drivers and executors are killed with SIGKILL. Each Spark takes ten seconds to start, so `make chaos` runs these."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from history import History
from lake_check import check
from lean_spark import lean_environment
from map_run import ROWS
from spark_shop import Shop
from support import until

from holdfast.spark.lake.opening import open_tables

PATIENCE = 120.0
pytestmark = pytest.mark.timeout(500)


@contextlib.contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[str]]:
    """A driver in a process of its own, killed at the end of the block if it still runs."""
    here = Path(__file__).parent
    process = subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=lean_environment(here, here.parent),
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for(process: subprocess.Popen[str], there: Callable[[], object]) -> None:
    def seen() -> object:
        assert process.poll() is None, process.communicate()
        return there()

    until(seen, patience=PATIENCE)


def test_a_map_goes_on_after_its_driver_was_killed(tmp_path: Path) -> None:
    shop = Shop(tmp_path, f"sqlite:///{tmp_path}/jobs.db")
    driver = (str(Path(__file__).with_name("map_run.py")), str(shop.file))
    ledger = tmp_path / "started"
    try:
        with running(*driver) as first:
            wait_for(first, lambda: ledger.exists() and len(ledger.read_text().split()) >= 4)
            first.kill()
        shop.open_gate()
        with running(*driver) as second:
            out, err = second.communicate(timeout=PATIENCE)
        assert second.returncode == 0, err
        assert sorted(json.loads(out.splitlines()[-1])) == [[n, "completed", n] for n in range(ROWS)]
        jobs = shop.jobs("slow").values()
        assert Counter(job.state for job in jobs) == {"completed": ROWS}, "each row once"
        assert sum(job.counters.stalls for job in jobs) <= 4, "only what ran when it was killed ran again"
    finally:
        shop.close()


class Followed:
    """A lake that `holdfast lake run --follow` keeps, on executors in processes of their own."""

    def __init__(self, history: History, path: Path) -> None:
        words = ("lake", "run", "--url", history.url, "--path", str(path), "--follow")
        self.command = ("-m", "holdfast", *words, "--master", "local-cluster[2,1,1024]")
        self.path = path

    def batch(self) -> int:
        """The last batch that is whole."""
        if not (self.path / "workers" / "_delta_log").exists():
            return 0
        return open_tables(self.path, read_only=True)["workers"].batch

    def has_begun(self, number: int) -> bool:
        return any(self.path.glob(f"events/b{number:09d}-*"))


def executors(driver: int) -> list[int]:
    """Return the executors of a driver, by the lines of their commands."""
    parents: dict[int, int] = {}
    backends: list[int] = []
    for each in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            parents[int(each.name)] = int((each / "stat").read_text().rpartition(")")[2].split()[1])
            if b"CoarseGrainedExecutorBackend" in (each / "cmdline").read_bytes():
                backends.append(int(each.name))

    def is_below(pid: int) -> bool:
        return pid == driver or (pid in parents and is_below(parents[pid]))

    return [pid for pid in backends if is_below(pid)]


def test_a_followed_lake_survives_its_driver_and_its_executors(tmp_path: Path) -> None:
    with History("sqlite", tmp_path) as history:
        followed = Followed(history, tmp_path / "lake")
        history.go_on()
        with running(*followed.command) as first:
            wait_for(first, lambda: followed.has_begun(1))
            os.kill(executors(first.pid)[0], signal.SIGKILL)
            wait_for(first, lambda: followed.batch() == 1)
            history.go_on()
            wait_for(first, lambda: followed.has_begun(2))
            first.kill()
        history.go_on()
        with running(*followed.command) as second:
            wait_for(second, lambda: followed.batch() == 2)
            wait_for(second, lambda: followed.has_begun(3))
            os.kill(executors(second.pid)[0], signal.SIGKILL)
            wait_for(second, lambda: followed.batch() == 3)
            second.send_signal(signal.SIGTERM)
            _, err = second.communicate(timeout=PATIENCE)
        assert second.returncode == 0, err
        check(followed.path, history.events())
