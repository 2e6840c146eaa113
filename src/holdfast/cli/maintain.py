"""`holdfast upkeep` and `migrate`: what workers do for their queues besides running jobs, and the schema."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import click
import msgspec

from ..app.app import Holdfast
from ..errors import ConfigError
from ..store import shown
from ..telemetry.line_handler import FormatName
from ..worker import Maintained
from .command import Command, Source, json_option, source_options
from .logs import log_format_option, set_up_logs
from .output import json_line, say
from .parse import as_names, as_seconds


@click.command(cls=Command)
@source_options
@click.option("--queues", callback=as_names, metavar="A,B", help="Of these queues; default: all that the store has.")
@click.option(
    "--once", is_flag=True, help="Do what is to be done, and end; waits for the leases of who may have vanished."
)
@click.option(
    "--interval", callback=as_seconds, default="5", show_default=True, metavar="S", help="Time between two sweeps."
)
@log_format_option
@json_option
def upkeep(
    source: Source,
    queues: tuple[str, ...] | None,
    once: bool,
    interval: float,
    log_format: FormatName,
    as_json: bool,
) -> None:
    """Look after queues, and run no job, until told to stop.

    Jobs of vanished workers are put back, what has expired is removed, logs are trimmed, and schedules fired. Every
    worker does that for the queues it serves; this does it for all, also for those of which no worker is alive.

    \b
    Examples:
      holdfast upkeep --url postgresql://localhost/shop
      holdfast upkeep --app shop:app --queues mail,reports
      holdfast upkeep --app shop:app --once
    """
    set_up_logs("info", log_format)

    async def work(app: Holdfast) -> Maintained:
        maintainer = app.maintainer(queues, interval=interval)
        return await (maintainer.once() if once else maintainer.run(signals=True))

    done = source.run(work)
    json_line(msgspec.to_builtins(done)) if as_json else say(_line(done))


def _line(done: Maintained) -> str:
    counts = {
        "jobs of vanished workers back": done.returned, "failed": done.failed, "finished runs removed": done.expired,
        "schedules fired": done.fired,
    }  # fmt: skip
    told = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    return f"upkeep of {', '.join(done.queues) or 'no queue'}: {told or 'nothing was to be done'}"


@runtime_checkable
class SchemaScript(Protocol):
    """A store whose schema can be printed as SQL."""

    def script(self, since: int = 0) -> str:
        """Return the SQL that makes the schema, or brings one with this number up to date."""


@click.command(cls=Command)
@source_options
@click.option("--sql", "as_sql", is_flag=True, help="Print the SQL that makes the schema, and change nothing.")
@click.option(
    "--since", type=click.IntRange(min=0), default=0, metavar="N", help="With --sql: for a schema that has number N."
)
def migrate(source: Source, as_sql: bool, since: int) -> None:
    """Bring the store's schema up to date.

    Opening a store does the same; this is for deploys in which another user owns the schema.

    \b
    Examples:
      holdfast migrate --url postgresql://owner@db/shop
      holdfast migrate --url postgresql://db/shop?schema=jobs --sql > holdfast.sql
      holdfast migrate --url postgresql://db/shop?schema=jobs --sql --since 3 > upgrade.sql
    """
    if since and not as_sql:
        raise ConfigError("--since is for --sql: without it, the store itself knows what it has")
    if as_sql:
        store = source.app().store
        if not isinstance(store, SchemaScript):
            raise ConfigError(f"{shown(store.url)}: only a postgresql:// store has its schema as SQL")
        click.echo(store.script(since), nl=False)
        return
    click.echo(source.run(_opened, create=True))


async def _opened(app: Holdfast) -> str:
    return f"{shown(app.store.url)}: the schema is current"
