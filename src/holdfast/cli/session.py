"""`holdfast workers`: who serves."""

from __future__ import annotations

from typing import Any

import click

from ..app import Holdfast
from ..store.contract import SessionInfo
from . import form
from .group import Command
from .show import json_out, span, table
from .source import Source, json_option, source_options


@click.command(cls=Command)
@source_options
@json_option
def workers(source: Source, as_json: bool) -> None:
    """List workers.

    What they serve, how busy they are, and when they were last heard.

    \b
    Examples:
      holdfast workers --app shop:app
      holdfast workers --url sqlite:///jobs.db --json
    """

    async def work(app: Holdfast) -> tuple[list[SessionInfo], int]:
        return await app.workers(), await app.store.now_ms()

    found, now = source.run(work)
    if as_json:
        json_out({"workers": [form.worker(info) for info in found]})
        return
    table(
        ("worker", "host", ">pid", "queues", ">active", ">slots", "is", ">up", ">heard"),
        [_row(info, now) for info in found],
    )


def _row(info: SessionInfo, now: int) -> tuple[Any, ...]:
    session = info.session
    up, heard = span(max(0, now - info.started_at_ms)), span(max(0, now - info.heard_at_ms))
    word = "alive" if info.alive else "gone"
    queues = ", ".join(session.queues)
    return (session.name, session.host, session.pid, queues, info.active, session.slots, word, up, heard)
