"""`holdfast workers`: list the workers."""

from __future__ import annotations

import click

from ...app.app import Holdfast
from ...store.contract import SessionInfo
from .. import json_form
from ..command import Command, Source, json_option, source_options
from ..output import duration, json_out, table


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
        json_out({"workers": [json_form.worker(info) for info in found]})
        return
    table(
        ("worker", "host", ">pid", "queues", ">active", ">slots", "is", ">up", ">heard"),
        [_row(info, now) for info in found],
    )


def _row(info: SessionInfo, now: int) -> tuple[object, ...]:
    session = info.session
    up, heard = duration(max(0, now - info.started_at_ms)), duration(max(0, now - info.heard_at_ms))
    word = "alive" if info.alive else "gone"
    queues = ", ".join(session.queues)
    return (session.name, session.host, session.pid, queues, info.active, session.slots, word, up, heard)
