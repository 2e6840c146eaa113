"""`holdfast lake`, as people call it: stopped, asked for reports and replays. `test_driver_kill` kills it."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from history import History
from lake_check import check, rows
from lean_spark import lean_environment
from pyspark.sql import SparkSession
from rich.console import Console
from support import eventually

from holdfast import ConfigError, StoreError
from holdfast.cli.root import cli
from holdfast.demo import lake as demo_lake

PATIENCE = 300.0
pytestmark = pytest.mark.timeout(900)
"""A session starts here in a process of its own."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, History]]:
    """A lake that was made by the command, which was stopped after its first batch."""
    folder = tmp_path_factory.mktemp("command")
    with History("sqlite", folder) as history:
        history.go_on()
        with running(history, folder, "--follow") as process:
            wait_for(process, lambda: (folder / "lake/workers/_delta_log/00000000000000000001.json").exists())
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, err
        assert "batch 1: " in out
        assert "stopping after this batch" in err
        yield folder / "lake", history


@contextmanager
def running(history: History, folder: Path, *how: str) -> Iterator[subprocess.Popen[str]]:
    """A `lake run` that goes on, and is killed at the end of the block if it still does."""
    words = ["lake", "run", "--url", history.url, "--path", str(folder / "lake"), *how]
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", *words, "--master", "local[2]"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=lean_environment(),
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for(process: subprocess.Popen[str], there: Callable[[], bool]) -> None:
    def seen() -> bool:
        assert process.poll() is None, process.communicate()
        return there()

    asyncio.run(eventually(seen, patience=PATIENCE))


def run(*words: object) -> str:
    done = CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False, standalone_mode=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_what_it_has_read_is_there_once(made: tuple[Path, History]) -> None:
    check(made[0], made[1].events())


def test_the_report_is_shown_and_written(made: tuple[Path, History], tmp_path: Path) -> None:
    shown = run("lake", "report", "--path", made[0])
    for word in ("Queues", "mail", "images", "Errors", "ValueError", "Tenants", "ann", "Workers", "worker-1-"):
        assert word in shown
    assert "nothing has happened" in run("lake", "report", "--path", made[0], "--since", "2030-01-01")
    told = json.loads(run("lake", "report", "--path", made[0], "--json"))
    assert {row["queue"] for row in told["queues"]} == {"mail", "images"}
    assert f"written: {tmp_path}" in run("lake", "report", "--path", made[0], "--html", tmp_path / "r.html")
    assert "<svg" in (tmp_path / "r.html").read_text()


def test_a_replay_is_shown(made: tuple[Path, History]) -> None:
    url = made[1].url
    where = "queue = 'images' AND state = 'completed'"
    chosen = [row for row in rows(made[0], "jobs") if (row["queue"], row["state"]) == ("images", "completed")]
    words = ("lake", "replay", "--url", url, "--path", made[0], "--where", where)
    assert f"{len(chosen)} chosen: {len(chosen)} queued (dry run)" in run(*words, "--dry-run")
    shown = run(*words)
    assert f"images/{chosen[0]['id']} -> {chosen[0]['id']}~{chosen[0]['run']}" in shown
    assert f"{len(chosen)} chosen: none queued, {len(chosen)} replayed before" in run(*words)
    assert json.loads(run(*words, "--json"))["before"] == len(chosen)


def test_vacuum_is_shown(made: tuple[Path, History]) -> None:
    assert "removed from disk" in run("lake", "vacuum", "--path", made[0])


@pytest.mark.parametrize(
    ("store", "path", "kind", "told"),
    [
        ("redis://127.0.0.1:{closed}?retry_for=0", "lake", StoreError, "127.0.0.1:{closed} cannot be reached"),
        ("redis://127.0.0.1:{closed}", "ftp://bucket/lake", ConfigError, "give a folder, or object storage"),
    ],
)
def test_what_cannot_go_well_is_told_before_spark_starts(
    store: str, path: str, kind: type[Exception], told: str, closed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def session(*args: object, **options: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("holdfast.spark.session", session)
    with pytest.raises(kind, match=told.format(closed=closed)):
        run("lake", "run", "--url", store.format(closed=closed), "--path", path, "--once", "--nice", 0)


def test_the_demo_ends_with_its_own_history(spark: SparkSession, tmp_path: Path) -> None:
    with History("sqlite", tmp_path) as history:
        history.go_on(40)
        (tmp_path / "shop.db").symlink_to(next(tmp_path.glob("lake*.db")))
        assert demo_lake.fill(tmp_path, spark) == len(history.events())
    console = Console(width=120, record=True, quiet=False)
    with console.capture() as shown:
        demo_lake.show(tmp_path, console)
    assert "images" in shown.get()
    assert (tmp_path / demo_lake.PAGE).exists()


def test_without_spark_the_demo_says_so_and_ends_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def session(*args: object, **options: object) -> None:
        raise ConfigError("Spark needs Java: pip install 'holdfast-queue[java]'")

    monkeypatch.setattr("holdfast.spark.session", session)
    console = Console(width=120)
    with console.capture() as shown:
        assert not demo_lake.show_lake(tmp_path, console)
    assert "The lake is left out: Spark needs Java: pip install 'holdfast-queue[java]'" in shown.get()
