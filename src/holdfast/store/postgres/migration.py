"""The schema: made and brought up to date under a lock, or handed out as SQL."""

from __future__ import annotations

import psycopg

from ...errors import StoreTooNew
from . import sql
from .connection import Connection, Place


async def migrate(connection: Connection, place: Place) -> None:
    """The schema is there and current."""
    newest = sql.migrations()[-1][0]
    if await version(connection, place) == newest:
        return
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 7))", (f"holdfast {place.schema}",))
        found = await version(connection, place)
        if found > newest:
            raise StoreTooNew(
                f"{place} has schema {found}, and this Holdfast knows {newest}: upgrade holdfast to use it"
            )
        if found < newest:
            await connection.execute(psycopg.sql.SQL(script(place.schema, found)))


async def version(connection: Connection, place: Place) -> int:
    """Return the number of the schema, 0 when there is none."""
    table = f'"{place.schema}".meta'
    # The table itself is asked for, not a name: names are cached, and somebody may have made it a moment ago.
    cursor = await connection.execute(
        "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = %s AND tablename = 'meta'", (place.schema,)
    )
    if await cursor.fetchone() is None:
        return 0
    cursor = await connection.execute(f"SELECT value FROM {table} WHERE name = 'schema'")
    row = await cursor.fetchone()
    return int(row[0]) if row else 0


def script(schema: str, since: int = 0) -> str:
    """Return the SQL that brings a schema from one number to the newest."""
    parts = [_create(schema)] if since == 0 else []
    parts += [text for number, text in sql.migrations() if number > since]
    newest = sql.migrations()[-1][0]
    parts += [sql.functions(), f"UPDATE holdfast.meta SET value = '{newest}' WHERE name = 'schema';\n"]
    return sql.rename("\n".join(parts), schema)


def _create(schema: str) -> str:
    """A schema that is there already is used, without the right to make one."""
    return (
        "DO $$ BEGIN\n"
        f"    IF NOT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = '{schema}') THEN\n"
        f'        CREATE SCHEMA "{schema}";\n'
        "    END IF;\nEND $$;\n"
    )
