"""The demo's output: a live screen on a terminal, else lines."""

from __future__ import annotations

import time
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from .board import Board, DemoStep
from .ledger import LedgerCheck
from .worker_processes import DemoWorker

WIDE = 112
"""From so many columns on, queues and workers are side by side."""
ROWS = 24
"""Rows that the rest of the screen needs, beside the steps."""
BARS = " ▁▂▃▄▅▆▇█"
STATES = ("waiting", "scheduled", "active", "completed", "failed", "cancelled")
MARKS = {"doing": ("…", "yellow"), "done": ("✓", "green"), "wrong": ("✗", "red")}
LOUD = {"retry": "yellow", "fail": "red", "reap": "magenta", "cancel": "cyan"}


class Display(Protocol):
    """What shows the board."""

    def __enter__(self) -> Display: ...

    def __exit__(self, *exc: object) -> None: ...

    def show(self, board: Board) -> None:
        """Show the board as it is now."""


class LiveScreen:
    """A live screen that is drawn again and again."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="crop")
        self._last: Board | None = None

    def __enter__(self) -> LiveScreen:
        self._live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._last is not None:
            self._live.update(_drawn(self._last, self._console.width, len(self._last.steps)))
        self._live.stop()

    def show(self, board: Board) -> None:
        self._last = board
        room = max(3, self._console.height - ROWS)
        self._live.update(_drawn(board, self._console.width, room), refresh=True)


class PlainLines:
    """A line for each step, and one a second for the queues."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next = 0.0
        self._printed: set[int] = set()

    def __enter__(self) -> PlainLines:
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def show(self, board: Board) -> None:
        for number, step in enumerate(board.steps):
            if step.mark != "doing" and number not in self._printed:
                self._printed.add(number)
                self._say(board, f"{'done ' if step.mark == 'done' else 'WRONG'}  {step.title}: {step.detail}")
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + 1
            counts = ", ".join(f"{board.count(state)} {state}" for state in STATES)
            alive = sum(info.alive for info in board.sessions)
            self._say(board, f"queue  {counts}; {alive} workers")

    def _say(self, board: Board, text: str) -> None:
        self._console.print(f"{board.age:5.1f} s  {text}", highlight=False, markup=False, soft_wrap=True)


def ledger_table(checks: list[LedgerCheck], console: Console) -> None:
    """Print every check of the ledger, and whether it holds."""
    if not console.is_terminal:
        for check in checks:
            line = f"{'ok   ' if check.holds else 'WRONG'}  {check.name:<13} {check.detail}"
            console.print(line, highlight=False, markup=False, soft_wrap=True)
        return
    table = Table(title="Ledger", title_justify="left", title_style="bold", show_header=False, box=None, padding=(0, 1))
    for check in checks:
        mark, colour = MARKS["done" if check.holds else "wrong"]
        table.add_row(Text(mark, colour), Text(check.name, "bold"), Text(check.detail, "" if check.holds else "red"))
    console.print(table)


def _drawn(board: Board, width: int, steps: int) -> RenderableType:
    top = Table.grid(padding=(0, 3))
    if width >= WIDE:
        top.add_row(_queues(board), _workers(board))
    else:
        top.add_row(_queues(board))
        top.add_row(_workers(board))
    return Group(_head(board), Text(), top, Text(), _steps(board.steps[-steps:]), Text(), _events(board))


def _head(board: Board) -> Text:
    rates = board.rates()
    last = rates[-1] if rates else 0
    return Text.assemble(
        ("Holdfast demo", "bold"), f"  {board.age:4.1f} s  ",
        (f"{last:>5,} jobs/s  ", "green"), (_spark(rates), "green"),
    )  # fmt: skip


def _spark(rates: list[int]) -> str:
    most = max(rates, default=0) or 1
    return "".join(BARS[(rate * (len(BARS) - 1) + most - 1) // most] for rate in rates)


def _queues(board: Board) -> Table:
    table = Table(box=None, padding=(0, 1), header_style="dim")
    table.add_column("queue", style="bold")
    for state in STATES:
        table.add_column(state, justify="right")
    for queue in board.queues:
        table.add_row(queue.name, *(_number(state, queue.counts.get(state, 0)) for state in STATES))
    return table


def _number(state: str, count: int) -> Text:
    colours = {"waiting": "yellow", "active": "cyan", "completed": "green", "failed": "red"}
    return Text(f"{count:,}", colours.get(state, "") if count else "dim")


def _workers(board: Board) -> Table:
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for title in ("worker", "process", "busy", ""):
        table.add_column(title)
    for worker in board.workers:
        table.add_row(worker.name, str(worker.pid), *_condition(board, worker))
    return table


def _condition(board: Board, worker: DemoWorker) -> tuple[Text, Text]:
    info = board.session_of(worker)
    busy = Text(f"{info.active}/{info.session.slots}" if info else "-")
    if worker.killed:
        return busy, Text("killed: SIGKILL", "bold red")
    if worker.exit_code is not None:
        return busy, Text("stopped", "dim")
    return busy, Text("working", "green") if info else Text("starting", "yellow")


def _steps(steps: list[DemoStep]) -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_column(min_width=1, no_wrap=True)
    table.add_column(min_width=23, no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis")
    for step in steps:
        mark, colour = MARKS[step.mark]
        table.add_row(
            Text(mark, colour), Text(step.title), Text(step.detail, "bold" if step.mark == "done" else colour)
        )
    return table


def _events(board: Board) -> Table:
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for title in ("last events of note", "job", "attempt", "state", "after"):
        table.add_column(title, no_wrap=True)
    for event in board.newest:
        after = "" if event.run_ms is None else f"{event.run_ms} ms"
        table.add_row(
            Text(event.transition, LOUD.get(event.transition, "")), f"{event.queue}/{event.id}", str(event.attempt),
            str(event.state or ""), event.error_type or after,
        )  # fmt: skip
    return table
