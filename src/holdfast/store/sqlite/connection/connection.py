"""Open a connection: set up, migrated, and with errors that are Holdfast's own."""

from __future__ import annotations

import random
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from ....errors import StoreBusy, StoreError
from ..repair.columns import is_utf8
from ..url import SqliteAddress
from .error import is_busy, translated
from .schema import migrate, schema_version

OLDEST_SQLITE = (3, 35, 0)
SOONEST_LOOK, LONGEST_LOOK = 0.000_1, 0.02
"""Seconds between two looks whether another process still writes: few at first, more the longer it takes."""


def connect(address: SqliteAddress) -> sqlite3.Connection:
    """Return a connection to a database whose schema is up to date."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise StoreError(f"Holdfast needs SQLite 3.35 or newer; this Python has {sqlite3.sqlite_version}")
    deadline = time.monotonic() + address.busy_timeout
    while True:
        try:
            with translated(address):
                return _connect(address)
        except StoreBusy:
            # Turning WAL on, and recovering it, do not wait for a lock as other statements do.
            if time.monotonic() > deadline:
                raise
            pause()


def begin(connection: sqlite3.Connection, address: SqliteAddress) -> None:
    """Begin a transaction that writes, once no other process does; raise SQLite's error after `busy_timeout`.

    Most transactions take a millisecond or two. SQLite itself would look again after 1, 2, 5, 10, 15 ms, and so on: two
    processes that write by turns would mostly sleep. So it is told not to wait (`wait_for_lock_here`).
    """
    began = time.monotonic()
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as error:
            waited = time.monotonic() - began
            if not is_busy(error) or waited >= address.busy_timeout:
                raise
        time.sleep(min(LONGEST_LOOK, SOONEST_LOOK + waited / 16))


def wait_for_lock_here(connection: sqlite3.Connection) -> None:
    """Let SQLite answer at once when another process writes: this one waits in `begin`."""
    connection.execute("PRAGMA busy_timeout = 0")


def pause() -> None:
    """Wait for a moment, for another process to finish with the file."""
    time.sleep(random.uniform(0.005, 0.02))


def _connect(address: SqliteAddress) -> sqlite3.Connection:
    connection = _open(address)
    try:
        _set_up(connection, address)
        migrate(connection, address)
    except BaseException:
        connection.close()
        raise
    return connection


def _open(address: SqliteAddress) -> sqlite3.Connection:
    if address.path is not None and not Path(address.path).absolute().parent.is_dir():
        raise StoreError(f"{address}: its folder does not exist; create {Path(address.path).absolute().parent}")
    return sqlite3.connect(
        address.path or ":memory:",
        timeout=address.busy_timeout,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )


def _set_up(connection: sqlite3.Connection, address: SqliteAddress) -> None:
    if connection.execute("PRAGMA page_count").fetchone()[0] == 0:  # of a file that is there, neither can be changed
        connection.execute("PRAGMA page_size = 8192")  # fewer, larger writes at each commit
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # room that is no longer needed can be given back
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if address.path is not None and mode != "wal":
        raise StoreError(f"{address}: the file system cannot do write-ahead logging (mode is {mode})")
    connection.execute(f"PRAGMA synchronous = {address.synchronous}")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA cache_size = -8192")
    connection.execute("PRAGMA wal_autocheckpoint = 0")  # the writer thread does it, when the log is long
    connection.create_function("is_utf8", 1, is_utf8, deterministic=True)
    connection.row_factory = None


def absent(address: SqliteAddress) -> str | None:
    """Return the path where there is no store yet, or `None`. Nothing is written."""
    if address.path is None:
        return None
    if not Path(address.path).exists():
        return address.path
    with translated(address), closing(_open(address)) as connection:
        return None if schema_version(connection, address) else f"{address.path} (namespace {address.namespace})"
