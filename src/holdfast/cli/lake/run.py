"""`holdfast lake run`: bring the lake up to date, and keep it so until a signal comes."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from typing import TYPE_CHECKING

import click

from ...errors import ConfigError, LakeError, StoreError
from ...log import to_stderr
from ...worker.signals import heard
from ..command import Source, json_option, must_exist, source_options
from ..output import json_line, say_note
from ..parse import as_seconds
from .look import path_option

if TYPE_CHECKING:
    from ...spark.lake import BatchResult, LakeLocation

EVERY = 30.0
FOLLOWING = 1.0


@click.command()
@source_options
@path_option
@click.option("--once", is_flag=True, help="Bring the lake up to date and end.")
@click.option(
    "--follow", is_flag=True, help="One continuous run: look for more every second, also after trouble with a server."
)
@click.option(
    "--every", callback=as_seconds, metavar="S", help="How often to look for more. Default: 30s; with --follow, 1s."
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
def run(
    source: Source,
    path: LakeLocation,
    once: bool,
    follow: bool,
    every: float | None,
    master: str | None,
    nice: int,
    as_json: bool,
) -> None:
    """Bring the lake up to date with the store's event log, and keep it so.

    Each batch is written down before it is read, and counts once, however often it is broken off: kill it at
    any time and run it again. With --follow it goes on by itself when the store or the storage was away.
    SIGTERM or Ctrl-C ends it after the batch at hand; a second one at once.

    \b
    Examples:
      holdfast lake run --app shop:app --every 1m
      holdfast lake run --url postgresql://db/shop --path /srv/lake --once
      holdfast lake run --url postgresql://db/shop --path s3://bucket/lake --follow
      holdfast lake run --url redis://cache --master spark://head:7077 --path /shared/lake
    """
    from ...spark import refuse_remote, session
    from ...spark.errors import plain_spark_errors
    from ...spark.lake import Lake
    from ...spark.lake import follow as keep_up
    from ...spark.lake.opening import require_lake

    if once and follow:
        raise ConfigError("--once and --follow: one of them, it ends or it goes on")
    to_stderr("WARNING", "%(levelname)s: %(message)s")
    app = source.app()
    asyncio.run(must_exist(app))
    stop = _Stop()
    _stand_back(nice)
    with app.sync:  # a store or storage that is away is noticed before Spark takes its time to start
        require_lake(path)
        spark = session(master, name="holdfast lake")
        try:
            refuse_remote(app.store.url, spark)
            with heard(stop.hear), plain_spark_errors():
                made = Lake(path, app, spark)
                pause = None if once else every or (FOLLOWING if follow else EVERY)
                keep_up(made, pause, lambda done: _say_result(done, once, as_json), stop.wait, persist=follow)
        finally:
            spark.stop()


def _stand_back(nice: int) -> None:
    """Lower the priority of this process, and so of Spark, below that of the workers of this machine."""
    if nice and hasattr(os, "nice"):  # Windows has none
        os.nice(nice)


class _Stop:
    """Signals: the first one stops after the batch, a second one at once."""

    def __init__(self) -> None:
        self._asked = threading.Event()

    def hear(self, number: int) -> None:
        """Note a signal."""
        if self._asked.is_set():
            raise KeyboardInterrupt
        self._asked.set()
        say_note("stopping after this batch; once more to stop at once")

    def wait(self, seconds: float) -> bool:
        """Wait for so many seconds; return True as soon as a signal has come."""
        return self._asked.wait(seconds)


def _say_result(done: BatchResult | LakeError | StoreError | None, once: bool, as_json: bool) -> None:
    """Print what a batch added. `nothing new` is printed only with --once."""
    if isinstance(done, (LakeError, StoreError)):
        if once:
            raise done
        say_note(f"{done}; going on")
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
