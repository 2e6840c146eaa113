"""What `--once` and `--json` print: one look, when the log has been read up to its end."""

from __future__ import annotations

import msgspec

from ...app.app import Holdfast
from ...json import form as json_form
from ...json.form import JsonObject
from ...store import shown
from ...telemetry.recent import Recent
from .data import TopData, TopReader

PATIENCE = 5.0
"""Seconds for which the log is read before what is known by then is shown."""


async def one_look(app: Holdfast, recent: Recent) -> TopData:
    """Return one look at everything."""
    await recent.catch_up(PATIENCE)
    return TopReader(app, recent, shown(app.store.url)).now()


def as_json(data: TopData) -> JsonObject:
    """Return one look as `--json` prints it."""
    traffic = data.view.queues
    return {
        "store": data.url,
        "now_ms": data.now_ms,
        "log": msgspec.to_builtins(data.view.state),
        "all": msgspec.to_builtins(data.view.all),
        "queues": [
            {**json_form.queue(info, data.now_ms), "traffic": msgspec.to_builtins(traffic.get(info.name))}
            for info in data.queues
        ],
        "tasks": msgspec.to_builtins(data.view.tasks),
        "workers": [json_form.worker(info) for info in data.workers],
        "failures": msgspec.to_builtins(data.view.failures),
        "attention": msgspec.to_builtins(data.concerns),
    }
