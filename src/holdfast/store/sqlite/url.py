"""The URLs of this store: `sqlite:///path` and `memory://name`, and their options."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from ...core.bound import KEPT_EVENTS
from ...errors import ConfigError
from ..namespace import check_namespace
from ..shown import option, shown

LEAST_WAL_LIMIT = 64 * 1024 * 1024
"""The smallest `wal_limit`: a shorter write-ahead log is nothing unusual."""


class SqliteAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where a database is and how it is opened, as its URL says."""

    path: str | None
    """The file; `None` is memory."""
    name: str = ""
    """A memory database with a name is shared within the process."""
    namespace: str = "holdfast"
    synchronous: str = "NORMAL"
    busy_timeout: float = 30.0
    history: int = KEPT_EVENTS
    """How many events the log keeps."""
    wal_limit: int = 1 << 30
    """Bytes of write-ahead log from which on no new jobs are taken in."""

    @property
    def flushes(self) -> bool:
        """True when what is answered must be on the disk."""
        return self.path is not None and self.synchronous in ("FULL", "EXTRA")

    def __str__(self) -> str:
        return self.path or f"memory://{self.name}"


def parse_url(url: str) -> SqliteAddress:
    """Return the address that a URL names; raise `ConfigError` for one that cannot be read."""
    parts = urlsplit(url)
    if "#" in url:
        raise ConfigError(f"{shown(url)!r}: what stands behind a # is not read; in a path it is written %23")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    given = {name: _option(url, name, value) for name, value in options.items()}
    if parts.scheme == "memory":
        if not re.fullmatch(r"[\w.-]*", parts.netloc) or parts.path.strip("/"):
            raise ConfigError(f"{shown(url)!r}: a name in memory is of letters, digits, _ . and -: memory://NAME")
        return SqliteAddress(path=None, name=parts.netloc, **given)
    if parts.netloc:
        raise ConfigError(f"{shown(url)!r}: write sqlite:///relative/path.db or sqlite:////absolute/path.db")
    path = unquote(parts.path.removeprefix("/"))
    if not path:
        raise ConfigError(f"{shown(url)!r} names no file; try sqlite:///jobs.db, or memory://")
    if path.startswith((":memory:", "file:")):
        right = "memory://" if ":memory:" in path else "sqlite:///path/to/jobs.db"
        raise ConfigError(f"{shown(url)!r}: that is SQLite's own way to write it; write {right}")
    return SqliteAddress(path=path, **given)


def _option(url: str, name: str, value: str) -> Any:
    what = option(urlsplit(url).query, name, value)
    if name == "namespace":
        return _namespace(url, value, what)
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
    raise ConfigError(f"{shown(url)!r}: {what} is not an option here; known are {known}")


def _namespace(url: str, name: str, what: str) -> str:
    if name.lower() == "sqlite" or name.lower().startswith("sqlite_"):
        raise ConfigError(f"{shown(url)!r}: {what}: SQLite keeps names that begin with sqlite_ for itself")
    return check_namespace(name, f"{shown(url)!r}: {what}")
