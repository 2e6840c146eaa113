"""The schema: made and brought up to date under a lock, or handed out as SQL.

Tables have a number, which rises with each migration. Functions have their own, and a digest: they are made anew when
this Holdfast's are newer, and an older one leaves them alone, for the newer ones take its calls, too.
"""

from __future__ import annotations

import re

import msgspec
import psycopg

from ...errors import ConfigError, StoreError, StoreTooNew
from . import sql
from .connection.connect import Connection
from .url import PostgresAddress

RESTORED = """
SELECT EXISTS (SELECT 1 FROM (SELECT xid FROM holdfast.event ORDER BY seq DESC LIMIT 1000) e
    WHERE e.xid >= pg_snapshot_xmax(pg_current_snapshot()))
"""
ANEW = """
UPDATE holdfast.event SET xid = '3';
UPDATE holdfast.meta SET value = '0' WHERE name = 'trimmed_xid';
UPDATE holdfast.meta SET value = replace(gen_random_uuid()::text, '-', '') WHERE name = 'epoch';
DELETE FROM holdfast.meta WHERE name LIKE 'reader:%';
"""
"""The log begins anew, and readers are told: old events come first, in the order of their numbers."""


class SchemaState(msgspec.Struct, frozen=True):
    """What a schema has: the number of its tables, 0 when there are none, and its functions' number and digest."""

    tables: int = 0
    minor: int = 0
    digest: str = ""

    @classmethod
    def of(cls, meta: dict[str, str]) -> SchemaState:
        """Return what rows of the table `meta` say."""
        minor, _, digest = meta.get("functions", "0").partition(" ")
        return cls(int(meta.get("schema", 0)), int(minor), digest)

    @property
    def current(self) -> bool:
        """True when this Holdfast has nothing newer."""
        return self.tables == newest() and (self.minor > sql.MINOR or (self.minor, self.digest) == ours())


def ours() -> tuple[int, str]:
    """Return the number and the digest of the functions of this Holdfast."""
    return sql.MINOR, sql.digest()


def newest() -> int:
    """Return the number of the tables of this Holdfast."""
    return sql.migrations()[-1][0]


async def migrate(connection: Connection, address: PostgresAddress) -> None:
    """The schema is there and current, and its log is of this server."""
    if (await inspect(connection, address)).current and not await _is_restored(connection, address):
        return
    async with connection.transaction():
        await connection.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(%s, 7))", (f"holdfast {address.schema}",)
        )
        found = await inspect(connection, address)
        if found.tables > newest():
            raise StoreTooNew(
                f"{address} has schema {found.tables}, and this Holdfast knows {newest()}: upgrade holdfast to use it"
            )
        if not found.current:
            await _bring_up(connection, address, found)
        if await _is_restored(connection, address):
            await connection.execute(psycopg.sql.SQL(sql.rename(ANEW, address.schema)))


async def epoch(connection: Connection, address: PostgresAddress) -> str:
    """Return what tells this store from others."""
    cursor = await connection.execute(f"SELECT value FROM \"{address.schema}\".meta WHERE name = 'epoch'")
    row = await cursor.fetchone()
    return str(row[0]) if row else ""


async def _is_restored(connection: Connection, address: PostgresAddress) -> bool:
    """True when the log has transactions that are still to come here: it is a dump of another server's."""
    cursor = await connection.execute(psycopg.sql.SQL(sql.rename(RESTORED, address.schema)))
    return await cursor.fetchone() == (True,)


async def _bring_up(connection: Connection, address: PostgresAddress, found: SchemaState) -> None:
    """The schema is as this Holdfast has it, or the error says whose task that is."""
    try:
        await _replace(connection, address, found)
    except psycopg.errors.InsufficientPrivilege as error:
        if found.tables == 0:
            raise
        raise StoreError(
            f"{address} is older than this Holdfast, and this user may not change it ({error.diag.message_primary}): "
            "its owner has to run holdfast migrate"
        ) from error


async def _replace(connection: Connection, address: PostgresAddress, found: SchemaState) -> None:
    """Functions keep their identity where they can, so that calls under way go on."""
    try:
        async with connection.transaction():
            await connection.execute(psycopg.sql.SQL(script(address.schema, found.tables)))
    except psycopg.errors.InvalidFunctionDefinition:  # one gives something else than it did
        await connection.execute(psycopg.sql.SQL(sql.rename(sql.text("drop_functions.sql"), address.schema)))
        await connection.execute(psycopg.sql.SQL(script(address.schema, found.tables)))


async def inspect(connection: Connection, address: PostgresAddress) -> SchemaState:
    """Return what is there."""
    table = f'"{address.schema}".meta'
    # The table itself is asked for, not a name: names are cached, and another process may have made it a moment ago.
    cursor = await connection.execute(
        "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = %s AND tablename = 'meta'", (address.schema,)
    )
    if await cursor.fetchone() is None:
        return SchemaState()
    cursor = await connection.execute(f"SELECT name, value FROM {table} WHERE name IN ('schema', 'functions')")
    values: dict[str, str] = dict(await cursor.fetchall())
    return SchemaState.of(values)


def script(schema: str, since: int = 0) -> str:
    """Return the SQL that brings a schema from one number to the newest."""
    if since > newest():
        raise ConfigError(f"--since={since}: this Holdfast knows schemas up to {newest()}")
    parts = [_create(schema)] if since == 0 else []
    parts += [text for number, text in sql.migrations() if number > since]
    minor, digest = ours()
    parts += [
        sql.functions(),
        f"UPDATE holdfast.meta SET value = '{newest()}' WHERE name = 'schema';\n"
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


def tables() -> list[str]:
    """Return the names of all tables, as the newest schema has them."""
    return [name for _, text in sql.migrations() for name in re.findall(r"CREATE TABLE holdfast\.(\w+)", text)]
