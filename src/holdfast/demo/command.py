"""The command `holdfast demo`."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import click
from rich.console import Console

from ..errors import HoldfastError
from .dashboard import dashboard, keep_open
from .lake import show_lake
from .ledger import LedgerCheck, audit
from .screen import Display, LiveScreen, PlainLines, ledger_table
from .worker_processes import FOLDER

if TYPE_CHECKING:
    from .board import Board
    from .story import DemoSize


@click.command()
@click.option("--dir", "folder", type=click.Path(file_okay=False, path_type=Path), help="Work here (must be empty).")
@click.option("--seconds", type=click.IntRange(3, 25), help="How long orders come in.  [default: 12]")
@click.option("--fast", is_flag=True, help="Few jobs, and over in a few seconds.")
@click.option("--lake/--no-lake", default=True, help="End with the lake, where Spark is installed.")
@click.option(
    "--dashboard", "with_dashboard", is_flag=True,
    help="Serve the dashboard meanwhile; on a terminal the shop then stays open, until Ctrl-C.",
)  # fmt: skip
@click.option("--plain", is_flag=True, help="Lines instead of a live view; the default when piped.")
@click.option(
    "--audit", "books", type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Only check the ledger of an earlier demo, in its folder.",
)  # fmt: skip
def demo(
    folder: Path | None,
    seconds: int | None,
    fast: bool,
    lake: bool,
    with_dashboard: bool,
    plain: bool,
    books: Path | None,
) -> None:
    """Show the queue at work: a small shop on a SQLite file.

    Three worker processes, retries, deduplication, a call that waits for its answer; one worker is killed
    half-way, and a ledger at the end adds up, or the exit status is 1. Then the history of it all goes through
    Spark into a lake, and a report is written.
    """
    console = Console(force_terminal=False if plain else None)
    if books is not None:
        _leave(_report(asyncio.run(audit(books)), console))
    demo_folder = _empty(folder)
    # The shop reads its folder from the environment when it is imported, like any app its settings.
    os.environ[FOLDER] = str(demo_folder)
    given = DemoRun(demo_folder, _size(seconds, fast), console, lake)
    if not with_dashboard:
        _leave(asyncio.run(_play(given)))
    try:
        adds_up = asyncio.run(_play_and_stay(given))
    except KeyboardInterrupt:
        adds_up = given.adds_up
    _leave(adds_up)


@dataclass
class DemoRun:
    """One run of the demo: where, how much, and what became of it."""

    folder: Path
    size: DemoSize
    console: Console
    lake: bool
    adds_up: bool = False


async def _play_and_stay(given: DemoRun) -> bool:
    """Show the story with a dashboard beside it; on a terminal, the shop stays open afterwards."""
    from .shop import app

    async with app, dashboard(given.folder, given.console) as address:
        await _play(given)
        if address is not None and given.console.is_terminal:
            given.console.print(f"Dashboard: {address}", highlight=False)
            await keep_open(given.folder, given.console)
    return given.adds_up


async def _play(given: DemoRun) -> bool:
    """Show the story, its ledger and its lake; return whether the ledger adds up."""
    view = LiveScreen(given.console) if given.console.is_terminal else PlainLines(given.console)
    try:
        await _run(given.folder, given.size, view)
    except BaseExceptionGroup as group:
        raise _first(group, given.folder) from group
    given.adds_up = _report(await audit(given.folder), given.console)
    has_lake = given.lake and await asyncio.to_thread(show_lake, given.folder, given.console)
    _farewell(given.folder, given.console, has_lake)
    return given.adds_up


def _leave(adds_up: bool) -> None:
    """Exit: 0 when the ledger adds up, else 1."""
    click.get_current_context().exit(0 if adds_up else 1)


def _empty(folder: Path | None) -> Path:
    if folder is None:
        return Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise click.ClickException(f"{folder} is not empty: name a new folder, or leave out --dir")
    return folder.resolve()


def _size(seconds: int | None, fast: bool) -> DemoSize:
    from .story import DemoSize

    return DemoSize(files=seconds or (3 if fast else 12), orders=100 if fast else 250)


async def _run(folder: Path, size: DemoSize, view: Display) -> None:
    from .board import Board
    from .shop import app
    from .story import DemoStory

    async with app:
        board = Board(app)
        with view:
            async with asyncio.TaskGroup() as group:
                showing = group.create_task(_show(board, view))
                await DemoStory(folder, size, board).play()
                showing.cancel()
            await board.refresh()
            view.show(board)


async def _show(board: Board, view: Display) -> None:
    while True:
        await board.refresh()
        view.show(board)
        await asyncio.sleep(0.125)


def _report(checks: list[LedgerCheck], console: Console) -> bool:
    console.print()
    ledger_table(checks, console)
    wrong = [check.name for check in checks if not check.holds]
    console.print()
    if wrong:
        console.print(f"The ledger does not add up: {', '.join(wrong)}.", style="bold red")
        return False
    console.print("The ledger adds up.", style="bold green")
    return True


def _farewell(folder: Path, console: Console, has_lake: bool) -> None:
    url = f"sqlite:///{quote(str(folder / 'shop.db'))}"
    holdfast = "holdfast" if shutil.which("holdfast") else os.path.relpath(Path(sys.executable).with_name("holdfast"))
    lines = (
        "",
        "Look at what is left:",
        f"  {holdfast} queues --url {url}",
        f"  {holdfast} jobs --url {url} --state failed",
        f"  {holdfast} events --url {url}",
        *([f"  {holdfast} lake report --path {folder / 'lake'}"] if has_lake else []),
        f"  {holdfast} demo --audit {folder}    (change a row first, and see it fail)",
        "The shop itself is holdfast/demo/shop.py; README.md says how to write yours.",
    )
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _first(group: BaseExceptionGroup[BaseException], folder: Path) -> BaseException:
    """Return the first thing that went wrong, and where to look for more."""
    first: BaseException = group
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    if isinstance(first, Exception):
        return HoldfastError(f"{type(first).__name__}: {first} (the workers' logs are in {folder})")
    return first
