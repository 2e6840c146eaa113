"""`holdfast migrate`: the store's schema is current, or its SQL is printed for whoever applies it."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import click

from ..app import Holdfast
from ..errors import ConfigError
from ..store import shown
from .group import Command
from .source import Source, source_options


@runtime_checkable
class Scripted(Protocol):
    """A store whose schema can be handed out as SQL."""

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
        if not isinstance(store, Scripted):
            raise ConfigError(f"{shown(store.url)}: only a postgresql:// store has its schema as SQL")
        click.echo(store.script(since), nl=False)
        return
    click.echo(source.run(_opened, create=True))


async def _opened(app: Holdfast) -> str:
    return f"{shown(app.store.url)}: the schema is current"
