"""Names that the shell completes: tasks and queues of the app that --app or HOLDFAST_APP names."""

from __future__ import annotations

import contextlib
import os

import click

from ..app.app import Holdfast


def _app(ctx: click.Context) -> Holdfast | None:
    """Return the app; none where it cannot be imported, as nobody wants to hear of that at a Tab."""
    from ..app.loader import load_app

    target = ctx.params.get("target") or os.environ.get("HOLDFAST_APP")
    with contextlib.suppress(Exception, SystemExit):
        return load_app(target) if target else None
    return None


def complete_tasks(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the tasks whose names begin so; of several words, the first is the task."""
    if param.name == "words" and ctx.params.get("words"):
        return []
    app = _app(ctx)
    return [] if app is None else [name for name in app.registry.tasks if name.startswith(incomplete)]


def complete_queues(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the queues whose names begin so, which the app declares."""
    app = _app(ctx)
    return [] if app is None else [name for name in app.registry.queues if name.startswith(incomplete)]
