"""A progress bar."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ...core.visible import visible
from ..write.report import WriteReport

SPEED_SECONDS = 60.0
"""Rate and remaining time are those of the last minute."""


@contextlib.contextmanager
def progress_bar(name: str, report: WriteReport, wanted: bool | None) -> Iterator[Callable[[int, int], None]]:
    """Draw a progress bar on stderr, by default only on a terminal; yield the function that moves it.

    It has what is done, rows a second, failures, the time that it took, and the time that is left.
    """
    shown = sys.stderr.isatty() if wanted is None else wanted
    columns = (
        TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"), TextColumn("{task.fields[failed]}"), TimeElapsedColumn(),
        TimeRemainingColumn(),
    )  # fmt: skip
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not shown, speed_estimate_period=SPEED_SECONDS) as drawn:
        total, left = report.rows, sum(last - first + 1 for first, last in report.open)
        number = drawn.add_task(visible(name), total=total, completed=total - left, rate="", failed="")

        def show(left: int, failed: int) -> None:
            drawn.update(number, completed=total - left, failed=f"{failed:,} failed" if failed else "")
            speed = drawn.tasks[0].speed
            drawn.update(number, rate=f"{speed:,.0f}/s" if speed else "")

        show(left, 0)
        yield show
