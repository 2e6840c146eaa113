"""The schema: made and brought up to date under a lock, or handed out as SQL.

Tables have a number, which rises with each migration. Functions have their own, and a digest: they are made anew when
this Holdfast's are newer, and an older one leaves them alone, for the newer ones take its calls, too.
"""

from __future__ import annotations

import msgspec
import psycopg

from ...errors import StoreTooNew
from . import sql
from .connection import Connection, Place


class Found(msgspec.Struct, frozen=True):
    """What a schema has: the number of its tables, 0 when there are none, and its functions' number and digest."""

    tables: int = 0
    minor: int = 0
    digest: str = ""

    @property
    def current(self) -> bool:
        """True when this Holdfast has nothing newer."""
        newest = sql.migrations()[-1][0]
        return self.tables == newest and (self.minor > sql.MINOR or (self.minor, self.digest) == ours())


def ours() -> tuple[int, str]:
    """Return the number and the digest of the functions of this Holdfast."""
    return sql.MINOR, sql.digest()


async def migrate(connection: Connection, place: Place) -> None:
    """The schema is there and current."""
    if (await look(connection, place)).current:
        return
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 7))", (f"holdfast {place.schema}",))
        found = await look(connection, place)
        newest = sql.migrations()[-1][0]
        if found.tables > newest:
            raise StoreTooNew(
                f"{place} has schema {found.tables}, and this Holdfast knows {newest}: upgrade holdfast to use it"
            )
        if not found.current:
            await _bring_up(connection, place, found)


async def _bring_up(connection: Connection, place: Place, found: Found) -> None:
    """Functions keep their identity where they can, so that calls under way go on."""
    try:
        async with connection.transaction():
            await connection.execute(psycopg.sql.SQL(script(place.schema, found.tables)))
    except psycopg.errors.InvalidFunctionDefinition:  # one gives something else than it did
        await connection.execute(psycopg.sql.SQL(sql.rename(sql.text("drop_functions.sql"), place.schema)))
        await connection.execute(psycopg.sql.SQL(script(place.schema, found.tables)))


async def look(connection: Connection, place: Place) -> Found:
    """Return what is there."""
    table = f'"{place.schema}".meta'
    # The table itself is asked for, not a name: names are cached, and somebody may have made it a moment ago.
    cursor = await connection.execute(
        "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = %s AND tablename = 'meta'", (place.schema,)
    )
    if await cursor.fetchone() is None:
        return Found()
    cursor = await connection.execute(f"SELECT name, value FROM {table} WHERE name IN ('schema', 'functions')")
    values: dict[str, str] = dict(await cursor.fetchall())
    minor, _, digest = values.get("functions", "0").partition(" ")
    return Found(int(values.get("schema", 0)), int(minor), digest)


def script(schema: str, since: int = 0) -> str:
    """Return the SQL that brings a schema from one number to the newest."""
    parts = [_create(schema)] if since == 0 else []
    parts += [text for number, text in sql.migrations() if number > since]
    newest = sql.migrations()[-1][0]
    minor, digest = ours()
    parts += [
        sql.functions(),
        f"UPDATE holdfast.meta SET value = '{newest}' WHERE name = 'schema';\n"
        f"INSERT INTO holdfast.meta (name, value) VALUES ('functions', '{minor} {digest}')\n"
        "ON CONFLICT (name) DO UPDATE SET value = excluded.value;\n",
    ]
    return sql.rename("\n".join(parts), schema)


def _create(schema: str) -> str:
    """A schema that is there already is used, without the right to make one."""
    return (
        "DO $$ BEGIN\n"
        f"    IF NOT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = '{schema}') THEN\n"
        f'        CREATE SCHEMA "{schema}";\n'
        "    END IF;\nEND $$;\n"
    )
