"""`holdfast lake run`: the lake is brought up to date, and kept so until a signal comes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import LakeBusy
from ..log import to_stderr
from .lake_path import path_option
from .show import json_line, note
from .source import Source, json_option, must_exist, source_options
from .value import as_seconds

if TYPE_CHECKING:
    from ..spark.lake import Done


@click.command()
@source_options
@path_option
@click.option("--once", is_flag=True, help="Bring the lake up to date and end.")
@click.option(
    "--every", callback=as_seconds, default="30s", show_default=True, metavar="S", help="How often to look for more."
)
@click.option("--master", metavar="URL", help="The Spark master; default: this machine.")
@click.option(
    "--nice",
    type=click.IntRange(0, 19),
    default=10,
    show_default=True,
    metavar="N",
    help="How far it stands back for others of this machine, such as workers; 0: not at all.",
)
@json_option
def run(source: Source, path: Path, once: bool, every: float, master: str | None, nice: int, as_json: bool) -> None:
    """Bring the lake up to date with the store's event log, and keep it so.

    Each batch is written down before it is read, and counts once, however often it is broken off: kill it at
    any time and run it again. SIGTERM or Ctrl-C ends it after the batch at hand; a second one at once.

    \b
    Examples:
      holdfast lake run --app shop:app --every 1m
      holdfast lake run --url postgresql://db/shop --path /srv/lake --once
      holdfast lake run --url redis://cache --master spark://head:7077 --path /shared/lake
    """
    from ..spark import refuse_remote, session
    from ..spark.lake import Lake, follow, lake_folder
    from ..spark.plainly import in_a_line

    to_stderr("WARNING", "%(levelname)s: %(message)s")
    app = source.app()
    asyncio.run(must_exist(app))
    stop = _Stop()
    _stand_back(nice)
    folder = lake_folder(path)
    with app.sync:  # a store that is not there is told before Spark takes its time to start
        spark = session(master, name="holdfast lake")
        try:
            refuse_remote(app.store.url, spark)
            with stop, in_a_line():
                made = Lake(folder, app, spark)
                follow(made, None if once else every, lambda done: _say(done, once, as_json), stop.wait)
        finally:
            spark.stop()


def _stand_back(nice: int) -> None:
    """Spark's processes, which this one starts, get what the jobs of this machine leave."""
    if nice and hasattr(os, "nice"):  # Windows has none
        os.nice(nice)


class _Stop:
    """A signal asks for the end; a second one takes it."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _Stop:
        self._before = {number: signal.signal(number, self._hear) for number in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _hear(self, number: int, frame: object) -> None:
        if self._asked.is_set():
            raise KeyboardInterrupt
        self._asked.set()
        note("stopping after this batch; once more to stop at once")

    def wait(self, seconds: float) -> bool:
        """Return True when the end was asked for, at the latest after so many seconds."""
        return self._asked.wait(seconds)


def _say(done: Done | LakeBusy | None, once: bool, as_json: bool) -> None:
    """A line says what a batch brought. Nothing new is told only to those who asked once."""
    if isinstance(done, LakeBusy):
        if once:
            raise done
        note(f"{done}; going on")
    elif as_json:
        told = {"batch": None, "events": 0} if done is None else vars(done)
        json_line(told)
    elif done is None:
        click.echo("nothing new") if once else None
    else:
        rate = done.events / done.seconds if done.seconds else 0
        missing = f", {done.missing:,} missing" if done.missing else ""
        click.echo(f"batch {done.batch}: {done.events:,} events in {done.seconds:.1f} s ({rate:,.0f}/s){missing}")
    sys.stdout.flush()
