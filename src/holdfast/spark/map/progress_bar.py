"""A progress bar."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ..write.report import WriteReport


@contextlib.contextmanager
def progress_bar(name: str, report: WriteReport, wanted: bool | None) -> Iterator[Callable[[int, int], None]]:
    """Draw a progress bar on stderr, by default only on a terminal; yield the function that moves it."""
    shown = sys.stderr.isatty() if wanted is None else wanted
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[failed]}"),
        TimeElapsedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), disable=not shown) as drawn:
        done = report.rows
        number = drawn.add_task(name, total=done, failed="")

        def show(left: int, failed: int) -> None:
            drawn.update(number, completed=done - left, failed=f"{failed} failed" if failed else "")

        show(sum(last - first + 1 for first, last in report.open), 0)
        yield show
