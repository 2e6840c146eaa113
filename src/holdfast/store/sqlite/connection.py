"""A connection that is set up, migrated and speaks our errors."""

from __future__ import annotations

import random
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from ...errors import (
    ConfigError,
    StoreBusy,
    StoreClosed,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreTooNew,
)
from ..shown import option, shown
from . import sql
from .column import is_utf8
from .holder import holders

OLDEST_SQLITE = (3, 35, 0)
LEAST_WAL_LIMIT = 64 * 1024 * 1024
"""Less than that the log may have without anything being wrong."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a database is and how it is opened, as its URL says."""

    path: str | None
    """The file; `None` is memory."""
    name: str = ""
    """A memory database with a name is shared within the process."""
    namespace: str = "holdfast"
    synchronous: str = "NORMAL"
    busy_timeout: float = 30.0
    history: int = 1_000_000
    """How many events the log keeps."""
    wal_limit: int = 1 << 30
    """Bytes of write-ahead log from which on no new jobs are taken in."""

    def __str__(self) -> str:
        return self.path or f"memory://{self.name}"


def parse(url: str) -> Place:
    """Return the place that a URL names, or say what is wrong with it."""
    parts = urlsplit(url)
    if "#" in url:
        raise ConfigError(f"{shown(url)!r}: what stands behind a # is not read; in a path it is written %23")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    given = {name: _option(url, name, value) for name, value in options.items()}
    if parts.scheme == "memory":
        if not re.fullmatch(r"[\w.-]*", parts.netloc) or parts.path.strip("/"):
            raise ConfigError(f"{shown(url)!r}: a name in memory is of letters, digits, _ . and -: memory://NAME")
        return Place(path=None, name=parts.netloc, **given)
    if parts.netloc:
        raise ConfigError(f"{shown(url)!r}: write sqlite:///relative/path.db or sqlite:////absolute/path.db")
    path = unquote(parts.path.removeprefix("/"))
    if not path:
        raise ConfigError(f"{shown(url)!r} names no file; try sqlite:///jobs.db, or memory://")
    return Place(path=path, **given)


def _option(url: str, name: str, value: str) -> Any:
    if name == "namespace" and re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,62}", value):
        return value
    if name == "synchronous" and value.upper() in ("OFF", "NORMAL", "FULL", "EXTRA"):
        return value.upper()
    if name == "busy_timeout" and re.fullmatch(r"\d+(\.\d+)?", value):
        return float(value)
    if name == "history" and value.isdigit():
        return int(value)
    if name == "wal_limit" and value.isdigit() and int(value) >= LEAST_WAL_LIMIT:
        return int(value)
    known = "namespace=NAME, synchronous=off|normal|full|extra, busy_timeout=SECONDS, history=EVENTS, "
    known += f"wal_limit=BYTES (from {LEAST_WAL_LIMIT})"
    what = option(urlsplit(url).query, name, value)
    raise ConfigError(f"{shown(url)!r}: {what} is not an option here; known are {known}")


def connect(place: Place) -> sqlite3.Connection:
    """Return a connection to a database whose schema is ours and current."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise StoreError(f"Holdfast needs SQLite 3.35 or newer; this Python has {sqlite3.sqlite_version}")
    deadline = time.monotonic() + place.busy_timeout
    while True:
        try:
            with translated(place):
                return _connect(place)
        except StoreBusy:
            # Turning WAL on, and recovering it, do not wait for a lock as other statements do.
            if time.monotonic() > deadline:
                raise
            pause()


def pause() -> None:
    """Let somebody else finish with the file."""
    time.sleep(random.uniform(0.005, 0.02))


def _connect(place: Place) -> sqlite3.Connection:
    connection = _open(place)
    try:
        _set_up(connection, place)
        _migrate(connection, place)
    except BaseException:
        connection.close()
        raise
    return connection


def _open(place: Place) -> sqlite3.Connection:
    if place.path is not None and not Path(place.path).absolute().parent.is_dir():
        raise StoreError(f"{place}: its folder does not exist; create {Path(place.path).absolute().parent}")
    return sqlite3.connect(
        place.path or ":memory:",
        timeout=place.busy_timeout,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )


def _set_up(connection: sqlite3.Connection, place: Place) -> None:
    if connection.execute("PRAGMA page_count").fetchone()[0] == 0:  # of a file that is there, neither can be changed
        connection.execute("PRAGMA page_size = 8192")  # fewer, larger writes at each commit
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # room that is no longer needed can be given back
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if place.path is not None and mode != "wal":
        raise StoreError(f"{place}: the file system cannot do write-ahead logging (mode is {mode})")
    connection.execute(f"PRAGMA synchronous = {place.synchronous}")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA cache_size = -8192")
    connection.execute("PRAGMA wal_autocheckpoint = 0")  # the writer thread does it, when the log is long
    connection.create_function("is_utf8", 1, is_utf8, deterministic=True)
    connection.row_factory = None


def _migrate(connection: sqlite3.Connection, place: Place) -> None:
    newest = sql.migrations()[-1][0]
    if schema_version(connection, place) == newest:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = schema_version(connection, place)
        if version > newest:
            raise StoreTooNew(
                f"{place} has schema {version}, and this Holdfast knows {newest}: upgrade holdfast to use it"
            )
        for number, script in sql.migrations():
            if number > version:
                _run_script(connection, sql.rename(script, place.namespace))
        connection.execute(f"UPDATE {place.namespace}_meta SET value = ? WHERE name = 'schema'", (newest,))
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _run_script(connection: sqlite3.Connection, script: str) -> None:
    """Run statement by statement: `executescript` would commit our transaction first."""
    pending = ""
    for line in script.splitlines():
        pending += line + "\n"
        if sqlite3.complete_statement(pending):
            connection.execute(pending)
            pending = ""


def absent(place: Place) -> str | None:
    """Return where there is no store, although a file may be there; nothing is written."""
    if place.path is None:
        return None
    if not Path(place.path).exists():
        return place.path
    with translated(place), closing(_open(place)) as connection:
        return None if schema_version(connection, place) else f"{place.path} (namespace {place.namespace})"


def schema_version(connection: sqlite3.Connection, place: Place) -> int:
    """Return the number of the schema, 0 when there is none."""
    table = f"{place.namespace}_meta"
    found = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,))
    if found.fetchone() is None:
        return 0
    row = connection.execute(f"SELECT value FROM {table} WHERE name = 'schema'").fetchone()
    if row is None:
        raise StoreCorrupt(f"{place}: the table {table} names no schema; restore the file from a backup")
    return int(row[0])


def _writer(place: Place) -> str:
    """Return who holds the write lock now, as far as that can be known."""
    found = holders(place.path, "writer") if place.path is not None else []
    return found[0] if found else "another process"


@contextmanager
def translated(place: Place) -> Iterator[None]:
    """Errors of SQLite become ours, with what to do next."""
    try:
        yield
    except sqlite3.Error as error:
        raise translate(error, place) from error


_TROUBLE = frozenset({
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_NOTADB,
})  # fmt: skip


def is_trouble(error: sqlite3.Error) -> bool:
    """True for what the file suffers, or others do to it, and not whoever asked."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _TROUBLE


def translate(error: sqlite3.Error, place: Place) -> StoreError:
    """Return our error for one of SQLite's."""
    text = str(error)
    if "locked" in text or "busy" in text:
        return StoreBusy(
            f"{place} was locked by {_writer(place)} for over {place.busy_timeout:g} s; "
            "end its long transaction, or raise busy_timeout"
        )
    if "full" in text:
        return StoreFull(f"{place}: no room left on the disk; nothing of this call was written ({text})")
    if "image is malformed" in text or "not a database" in text:
        return StoreCorrupt(f"{place} is damaged or not a SQLite file ({text}); restore it from a backup")
    if "readonly" in text or "read-only" in text:
        return StoreReadOnly(f"{place} cannot be written; check the rights of the file and its folder")
    if "unable to open" in text:
        return StoreError(f"{place} cannot be opened; check the path and its rights")
    if "closed database" in text:
        return StoreClosed(f"{place} is closed")
    return StoreError(f"{place}: {text}")
