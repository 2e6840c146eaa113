"""Where the database is: parsed from a URL, or taken from a pool or an engine that the program has already."""

from __future__ import annotations

import re
from functools import cache
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

import msgspec
import psycopg

from ...core.bound import KEPT_EVENTS
from ...errors import ConfigError
from ..namespace import check_namespace
from ..shown import ESCAPES, option, shown, written


class PostgresAddress(msgspec.Struct, frozen=True, kw_only=True):
    """The database, the schema in it, and the options of the connection, as a URL gives them."""

    conninfo: str
    """The URL for libpq, without our own options."""
    schema: str = "holdfast"
    history: int = KEPT_EVENTS
    """How many events the log keeps."""
    pool: int = 8
    """The most connections, besides the one that listens."""
    listen: bool | None = None
    """False behind a pooler in transaction mode: workers and waiters then poll. `None`: it is found out."""
    prepare: bool | None = None
    """False where a pooler cannot keep prepared statements. `None`: it is found out."""
    patience: float = 10.0
    """For how many seconds a call waits for a connection or a lock, or tries again."""
    direct: bool = False
    """It was found out that no pooler lies between: what is set in a session stays there."""

    def __repr__(self) -> str:
        return f"<PostgresAddress {self}>"  # and no password

    def __str__(self) -> str:
        parts = urlsplit(self.conninfo)
        return f"postgresql://{parts.netloc.rpartition('@')[2]}{parts.path}?schema={self.schema}"


def parse(url: str) -> PostgresAddress:
    """Return the address that a URL names; raise `ConfigError` that says what is wrong with it."""
    if written(url) is None:
        raise ConfigError(f"{shown(url)!r}: host and port, then /database and ?options, were expected; {ESCAPES}")
    parts = urlsplit(url)
    given: dict[str, Any] = {}
    theirs = []
    for name, value in _pairs(parts.query):
        if name == "ssl" and value in _SSL_MODES:  # asyncpg's name, as SQLAlchemy's URLs have it
            theirs.append(("sslmode", value))
        elif name in _OPTIONS:
            given["schema" if name == "namespace" else name] = _option(url, name, value)
        elif name in libpq_options():
            theirs.append((name, value))
        else:
            raise ConfigError(f"{shown(url)!r}: {option(parts.query, name, value)} is not an option here; {_known()}")
    query = f"?{urlencode(theirs, quote_via=quote)}" if theirs else ""
    conninfo = f"postgresql://{parts.netloc}{parts.path}{query}"
    try:
        psycopg.conninfo.conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError as error:  # whose words may hold a part of it
        if "out of memory" in str(error):
            raise MemoryError(f"{shown(url)!r}: libpq has no memory to read it") from None
        raise ConfigError(f"{shown(url)!r}: libpq cannot read it; {ESCAPES}; {_known()}") from None
    return PostgresAddress(conninfo=conninfo, **given)


def _pairs(query: str) -> list[tuple[str, str]]:
    """Return the options of a URL as libpq reads them, to whom a plus is a plus."""
    parts = (pair.partition("=") for pair in query.split("&") if pair)
    return [(unquote(name), unquote(value)) for name, _, value in parts]


_OPTIONS = {
    "schema": ("NAME", ".*"),
    "namespace": ("NAME", ".*"),
    "history": ("EVENTS", r"\d+"),
    "pool": ("CONNECTIONS", r"[1-9]\d*"),
    "listen": ("on|off", r"on|off"),
    "prepare": ("on|off", r"on|off"),
    "patience": ("SECONDS", r"\d+(\.\d+)?"),
}


_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


def _known() -> str:
    return (
        f"besides libpq's own options, known are {', '.join(f'{name}={form}' for name, (form, _) in _OPTIONS.items())}"
    )


@cache
def libpq_options() -> frozenset[str]:
    """Return the names of the options that libpq has."""
    return frozenset(option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults())


def _option(url: str, name: str, value: str) -> str | int | float | bool:
    form, pattern = _OPTIONS[name]
    if form == "NAME":
        return check_namespace(value, f"{shown(url)!r}: {option(f'{name}=', name, value)}")
    if not re.fullmatch(pattern, value):
        raise ConfigError(f"{shown(url)!r}: {option(f'{name}=', name, value)} is not {name}={form}")
    if form == "on|off":
        return value == "on"
    return float(value) if form == "SECONDS" else int(value)


_PARTS = ("user", "password", "host", "port", "dbname")


def url_of(existing: object) -> str:
    """Return the URL of the database to which a program's own pool or engine connects.

    Holdfast makes connections of its own there: a borrowed one would come with its owner's settings, and one that
    listens would never be given back.
    """
    if _package(existing) == "psycopg_pool":
        return built(_kind(existing), _of_pool(existing))
    if _package(existing) == "sqlalchemy" and hasattr(existing, "url"):
        return built(_kind(existing), _of_engine(existing))
    raise ConfigError(
        f"{_kind(existing)} is neither a URL nor a pool or an engine for PostgreSQL: "
        "give a psycopg_pool pool, an SQLAlchemy engine, or postgresql://user@host/database"
    )


def _kind(value: object) -> str:
    return type(value).__name__  # what a pool or an engine says of itself may hold a password


def _package(value: object) -> str:
    return type(value).__module__.partition(".")[0]


def _of_pool(pool: Any) -> dict[str, object]:
    if not isinstance(pool.conninfo, str):
        raise ConfigError(f"this {_kind(pool)} finds out where to connect by a function: give Holdfast a URL instead")
    given = dict(pool.kwargs) if isinstance(pool.kwargs, dict) else {}
    known = {name: value for name, value in given.items() if name in libpq_options()}
    return {**psycopg.conninfo.conninfo_to_dict(pool.conninfo), **known}


def _of_engine(engine: Any) -> dict[str, object]:
    url = engine.url
    if url.get_backend_name() != "postgresql":
        raise ConfigError(
            f"this {_kind(engine)} is no engine for PostgreSQL: give Holdfast the URL of its store instead"
        )
    # Options of the engine's own driver, such as asyncpg's, are left out: they do not say where the database is.
    known = {name: value for name, value in url.query.items() if name in libpq_options()}
    found = (url.username, url.password, url.host, url.port, url.database)
    return {**known, **{name: value for name, value in zip(_PARTS, found, strict=True) if value is not None}}


def built(whose: str, options: dict[str, object]) -> str:
    """Return a URL with libpq's options; `whose` they are, a message says."""
    user, password, host, port, database = (str(options.pop(name, None) or "") for name in _PARTS)
    if "," in host:
        raise ConfigError(f"this {whose} has several hosts: give Holdfast a URL with all of them instead")
    who = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
    at = (f"{who}@" if who else "") + quote(host, safe=":" if host.startswith("[") else "")
    where = at + (f":{port}" if port else "")
    query = urlencode({name: value for name, value in options.items() if value is not None}, quote_via=quote)
    return f"postgresql://{where}/{quote(database, safe='')}" + (f"?{query}" if query else "")
