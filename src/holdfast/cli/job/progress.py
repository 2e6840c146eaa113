"""How far a long command is, on a terminal: how many, how fast, and how long it will take."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TimeRemainingColumn
from rich.text import Text


class CountColumn(ProgressColumn):
    """How many are done, of how many, and how many in a second."""

    def render(self, task: Task) -> Text:
        """Return the text of now."""
        of = f" of {task.total:,.0f}" if task.total is not None else ""
        return Text(f"{task.completed:,.0f}{of}, {task.speed or 0:,.0f}/s")


class ProgressLine:
    """A line that shows progress while it is entered; nothing where the console is no terminal."""

    def __init__(self, console: Console, total: int | None, *, disable: bool = False) -> None:
        columns = [BarColumn(), TimeRemainingColumn()] if total is not None else []
        hidden = disable or not console.is_terminal
        self._progress = Progress(CountColumn(), *columns, console=console, transient=True, disable=hidden)
        self._bar = self._progress.add_task("", total=total)

    def __enter__(self) -> ProgressLine:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._progress.stop()

    def advance(self, count: int) -> None:
        """So many more are done."""
        self._progress.advance(self._bar, count)
