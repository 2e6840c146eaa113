"""The demo: it runs to its end, its ledger adds up, and the ledger notices when something is not right."""

from __future__ import annotations

import asyncio
import io
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from holdfast import Holdfast
from holdfast.demo.board import Board
from holdfast.demo.ledger import CHECKS, ProducerBook, audit
from holdfast.demo.screen import LiveScreen, ledger_table

CHECKED = {
    "dispatched", "accounted for", "nothing lost", "attempts", "outcomes", "stalls", "recovered", "done once",
    "deduplicated", "money", "workers",
}  # fmt: skip


def holdfast(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "holdfast", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=90)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """A demo that ran, and what it printed."""
    folder = tmp_path_factory.mktemp("demo")
    return folder, holdfast("demo", "--fast", "--plain", "--no-lake", "--dir", folder)


@pytest.fixture
def folder(shown: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path) -> Path:
    """A copy of what the demo left, to tamper with."""
    return shutil.copytree(shown[0], tmp_path / "copy")


def wrong(folder: Path) -> set[str]:
    """Return the names of the checks that do not hold."""
    return {check.name for check in asyncio.run(audit(folder)) if not check.holds}


def test_the_ledger_adds_up(shown: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    done = shown[1]
    assert done.returncode == 0, done.stdout + done.stderr
    held = {line[7:20].strip() for line in done.stdout.splitlines() if line.startswith("ok ")}
    assert held == CHECKED
    assert len(CHECKS) == len(CHECKED)
    assert "WRONG" not in done.stdout
    assert "361 enqueued = 359 completed + 1 failed + 1 cancelled" in done.stdout
    assert "The ledger adds up." in done.stdout


def test_the_demo_tells_its_story(shown: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    out = shown[1].stdout
    assert "the answer for 42.00 is ok-004200" in out
    assert "1 queued, 4 duplicate" in out
    assert "24 failures, all retried, all sent" in out
    assert "kill worker-2 (SIGKILL)" in out
    assert "done by other workers" in out
    assert "holdfast jobs --url sqlite:///" in out


def sql(statement: str) -> Callable[[Path], None]:
    def tamper(folder: Path) -> None:
        with sqlite3.connect(folder / "shop.db") as connection:
            assert connection.execute(statement).rowcount > 0
        connection.close()

    return tamper


def note(change: Callable[[list[str]], list[str]]) -> Callable[[Path], None]:
    def tamper(folder: Path) -> None:
        for path in (folder / "notes").iterdir():
            path.write_text("".join(f"{line}\n" for line in change(path.read_text().splitlines())))

    return tamper


def told(**changes: object) -> Callable[[Path], None]:
    def tamper(folder: Path) -> None:
        book = msgspec.json.decode((folder / "producer.json").read_bytes(), type=ProducerBook)
        msgspec.structs.replace(book, **changes).save(folder)

    return tamper


TAMPERING = {
    "a job is gone": (sql("DELETE FROM holdfast_job WHERE id = 'order-0-5'"), "nothing lost"),
    "a job was never finished": (
        sql("UPDATE holdfast_job SET state = 'waiting' WHERE id = 'order-0-5'"), "accounted for",
    ),
    "a job that nobody asked for": (sql("UPDATE holdfast_job SET id = 'x' WHERE id = 'order-0-5'"), "nothing lost"),
    "an attempt too many": (sql("UPDATE holdfast_job SET attempts = attempts + 1 WHERE id = 'charge-1'"), "attempts"),
    "a failure that never was": (
        sql("UPDATE holdfast_job SET failures = failures + 1 WHERE id = 'order-0-5'"), "outcomes",
    ),
    "a stall that never was": (sql("UPDATE holdfast_job SET stalls = stalls + 1 WHERE id = 'charge-1'"), "stalls"),
    "a result is another": (sql("UPDATE holdfast_job SET result = '1' WHERE id = 'order-0-5'"), "money"),
    "completed twice": (
        sql("UPDATE holdfast_event SET transition = 'complete' WHERE transition = 'claim' AND id = 'order-0-5'"),
        "done once",
    ),
    "finished by the killed worker": (
        sql("UPDATE holdfast_event SET worker = (SELECT worker FROM holdfast_event WHERE transition = 'reap')"
            " WHERE transition = 'complete'"),
        "recovered",
    ),
    "a handler ran unseen": (note(lambda lines: [*lines, "begin\tpayments\tcharge-1\t2"]), "done once"),
    "a handler says otherwise": (
        note(lambda lines: [line.replace("end\tpayments", "raise\tpayments") for line in lines]), "outcomes",
    ),
    "the report ran again": (note(lambda lines: [*lines, "begin\treports\treport-2026-11-15\t2"]), "deduplicated"),
    "an answer was miscounted": (told(answers={"queued": 1}), "dispatched"),
    "the killed worker held nothing": (told(held=[]), "stalls"),
    "a worker crashed": (told(exits={"worker-1": 1}), "workers"),
}  # fmt: skip


@pytest.mark.parametrize("what", TAMPERING)
def test_the_ledger_notices(what: str, folder: Path) -> None:
    tamper, check = TAMPERING[what]
    assert not wrong(folder)
    tamper(folder)
    assert check in wrong(folder)


def test_a_ledger_that_does_not_add_up_is_exit_status_1(folder: Path) -> None:
    sql("DELETE FROM holdfast_job WHERE id = 'order-0-5'")(folder)
    done = holdfast("demo", "--audit", folder)
    assert done.returncode == 1
    assert "WRONG  nothing lost  1 lost, 0 that nobody asked for (orders/order-0-5)" in done.stdout
    assert "The ledger does not add up: accounted for, nothing lost" in done.stdout


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    done = holdfast("demo", "--dir", tmp_path)
    assert done.returncode != 0
    assert f"{tmp_path} is not empty: name a new folder, or leave out --dir" in done.stderr


def test_a_folder_without_a_demo_has_no_ledger(tmp_path: Path) -> None:
    done = holdfast("demo", "--audit", tmp_path)
    assert done.returncode != 0
    assert f"{tmp_path} holds no ledger: no demo ran to its end there" in done.stderr


@pytest.mark.parametrize("width", [80, 140])
async def test_the_live_view_shows_queues_steps_and_events(folder: Path, width: int) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=width, height=50, color_system=None)
    async with Holdfast(f"sqlite:///{folder / 'shop.db'}") as app:
        board = Board(app)
        with board.step("look") as step:
            await board.refresh()
            step.done("all is well")
        with LiveScreen(console) as screen:
            screen.show(board)
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    for word in ("Holdfast demo", "orders", "300", "✓ look", "all is well", "last events of note"):
        assert word in shown


async def test_people_see_the_ledger_as_a_table(folder: Path) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120, color_system=None)
    sql("DELETE FROM holdfast_job WHERE id = 'order-0-5'")(folder)
    ledger_table(await audit(folder), console)
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert "✓  money" not in shown
    assert "✗  nothing lost" in shown
    assert "✓  stalls" in shown


def test_a_step_that_raises_is_marked_wrong() -> None:
    board = Board(Holdfast("memory://"))
    with pytest.raises(OSError, match="no disk"), board.step("write"):
        raise OSError("no disk")
    assert (board.steps[0].mark, board.steps[0].detail) == ("wrong", "OSError: no disk")
