"""The command `holdfast top`."""

from __future__ import annotations

import asyncio
import shutil
import sys

import click

from ...app.app import Holdfast
from ...core.action import acting_as
from ...telemetry.recent import Recent, RecentOptions
from ..command import Command, Source, acting_options, json_option, must_exist
from ..output import json_out
from .data import TopData
from .frame import Canvas, frame
from .loop import TopLoop, parts_of
from .snapshot import as_json, one_look
from .state import TopState
from .terminal import Terminal, is_interactive, must_have_keys

PLAIN_WIDTH = 160
"""The width of a frame that goes to a file or a pipe."""


@click.command(cls=Command)
@acting_options
@click.option(
    "--interval", type=click.FloatRange(0.1, 3600), default=1.0, show_default=True, metavar="SECONDS",
    help="How often the store is looked at.",
)  # fmt: skip
@click.option("--once", is_flag=True, help="Print one frame and exit; so it does where there is no terminal.")
@click.option("--read-only", is_flag=True, help="Look only: no key changes anything.")
@json_option
def top(source: Source, interval: float, once: bool, read_only: bool, as_json: bool) -> None:
    """Watch queues, workers, rates and failures, live in the terminal.

    Keys pause and resume a queue, open a job, requeue what failed; ? lists them, q quits.

    \b
    Examples:
      holdfast top --app shop:app
      holdfast top --url redis://localhost --interval 5 --read-only
      holdfast top --once | grep mail
      holdfast top --json | jq '.attention[].words'
    """
    state = TopState(read_only=read_only)
    if as_json or once or not is_interactive():
        _print(source, state, json=as_json)
        return
    must_have_keys()
    with acting_as(source.who):
        code = asyncio.run(_live(source.app(), state, interval))
    click.get_current_context().exit(code)


async def _live(app: Holdfast, state: TopState, interval: float) -> int:
    await must_exist(app)
    options = RecentOptions(interval=min(0.5, interval), idle_interval=max(0.5, interval), look_every=interval)
    async with app, Recent(app.store, options) as recent:
        with Terminal() as terminal:
            return await TopLoop(app, recent, terminal, state, interval).run()


def _print(source: Source, state: TopState, *, json: bool) -> None:
    app = source.app()

    async def look() -> TopData:
        await must_exist(app)
        async with app:
            return await one_look(app, Recent(app.store))

    data = asyncio.run(look())
    if json:
        json_out(as_json(data))
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else PLAIN_WIDTH
    canvas = Canvas(width, None, color=sys.stdout.isatty(), ascii_only=not _is_unicode())
    parts = parts_of(app, data, state, ascii_only=canvas.ascii_only)
    for line in frame(data, state, parts, canvas, 0):
        click.echo(line.rstrip())


def _is_unicode() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
