"""The schema of a database: its version, and the migrations that bring it up to date."""

from __future__ import annotations

import re
import sqlite3

from ....errors import StoreCorrupt, StoreTooNew
from .. import sql
from ..url import SqliteAddress


def migrate(connection: sqlite3.Connection, address: SqliteAddress) -> None:
    """Bring the schema up to date, in one transaction."""
    if schema_version(connection, address) == newest():
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        bring_up(connection, address)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def newest() -> int:
    """Return the number of the schema of this Holdfast."""
    return sql.migrations()[-1][0]


def bring_up(connection: sqlite3.Connection, address: SqliteAddress) -> None:
    """Bring the schema up to date, in the transaction that is open."""
    version = schema_version(connection, address)
    if version > newest():
        raise StoreTooNew(
            f"{address} has schema {version}, and this Holdfast knows {newest()}: upgrade holdfast to use it"
        )
    for number, script in sql.migrations():
        if number > version:
            _run_script(connection, sql.rename(script, address.namespace))
    connection.execute(
        sql.rename("UPDATE holdfast_meta SET value = ? WHERE name = 'schema'", address.namespace), (newest(),)
    )


def _run_script(connection: sqlite3.Connection, script: str) -> None:
    """Run statement by statement: `executescript` would commit our transaction first."""
    pending = ""
    for line in script.splitlines():
        pending += line + "\n"
        if sqlite3.complete_statement(pending):
            connection.execute(pending)
            pending = ""


def schema_version(connection: sqlite3.Connection, address: SqliteAddress) -> int:
    """Return the number of the schema, 0 when there is none."""
    table = f"{address.namespace}_meta"
    found = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,))
    if found.fetchone() is None:
        return 0
    row = connection.execute(
        sql.rename("SELECT value FROM holdfast_meta WHERE name = 'schema'", address.namespace)
    ).fetchone()
    if row is None:
        raise StoreCorrupt(f"{address}: the table {table} names no schema; restore the file from a backup")
    return int(row[0])


def tables(namespace: str) -> list[str]:
    """Return the names of all tables, as the newest schema has them."""
    found = [name for _, script in sql.migrations() for name in re.findall(r"CREATE TABLE holdfast_(\w+)", script)]
    return [f"{namespace}_{name}" for name in found]
