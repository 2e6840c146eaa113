"""The end of the demo: Spark reads its history into a lake, and a report shows what happened."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from rich.console import Console
from rich.table import Table

from ..app.app import Holdfast
from ..errors import HoldfastError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..spark.lake.report import LakeReport

PAGE = "report.html"
SHOWN = ("queue", "completed", "failed", "retried", "stalled", "wait p50", "wait p99", "run p50")


def show_lake(folder: Path, console: Console) -> bool:
    """Make the lake and show it; return False, after a line that says why, when Spark is missing."""
    console.print()
    _say(console, "And the lake: the history of all these jobs, by Spark (it takes some seconds to start) ...")
    began = time.monotonic()
    try:
        events = _filled(folder)
    except HoldfastError as error:
        _say(console, f"The lake is left out: {error}")
        return False
    _say(console, f"{events:,} events are in {folder / 'lake'} after {time.monotonic() - began:.0f} s.")
    show(folder, console)
    return True


def _filled(folder: Path) -> int:
    from ..spark import session

    spark = session("local[2]", name="holdfast demo")
    try:
        return fill(folder, spark)
    finally:
        spark.stop()


def fill(folder: Path, spark: SparkSession) -> int:
    """Read the events of the demo's store into its lake; return how many."""
    from ..spark.lake import Lake

    app = Holdfast(f"sqlite:///{quote(str(folder / 'shop.db'))}")
    with app.sync:
        done = Lake(folder / "lake", app, spark).read_new()
    return 0 if done is None else done.events


def show(folder: Path, console: Console) -> None:
    """Print the report of the lake, and write a page with charts."""
    from ..spark.lake.report import html_page, make_report

    found = make_report(folder / "lake")
    (folder / PAGE).write_text(html_page(found), "utf-8")
    console.print(_queues(found))
    for row in found.errors[:3]:
        _say(console, f"  {row['count']:>3} x {row['error_type']} in {row['queue']}, last of {row['example']}")
    _say(console, f"Charts: {folder / PAGE}")


def _say(console: Console, line: str) -> None:
    """Print a line as it is, without markup."""
    console.print(line, highlight=False, markup=False, soft_wrap=True)


def _queues(found: LakeReport) -> Table:
    from ..spark.lake.report.columns import QUEUES

    wanted = [(column.title, column.text) for column in QUEUES if column.title in SHOWN]
    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name, _ in wanted:
        made.add_column(name, justify="left" if name == "queue" else "right")
    for row in found.queues:
        made.add_row(*(str(value(row)) for _, value in wanted))
    return made
