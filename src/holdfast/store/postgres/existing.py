"""Pools and engines that a program has already: Holdfast goes where they go, on connections of its own.

A borrowed connection would come with its owner's settings, and one that listens would never be given back.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

import psycopg

from ...errors import ConfigError
from .connection import libpq_options

_PLACE = ("user", "password", "host", "port", "dbname")


def url_of(existing: Any) -> str:
    """Return the URL of the database that a pool or an engine is connected to."""
    if _package(existing) == "psycopg_pool":
        return _url(existing, _of_pool(existing))
    if _package(existing) == "sqlalchemy" and hasattr(existing, "url"):
        return _url(existing, _of_engine(existing))
    raise ConfigError(
        f"{_kind(existing)} is neither a URL nor a pool or an engine for PostgreSQL: "
        "give a psycopg_pool pool, an SQLAlchemy engine, or postgresql://user@host/database"
    )


def _kind(value: Any) -> str:
    return type(value).__name__  # what a pool or an engine says of itself may hold a password


def _package(value: Any) -> str:
    return type(value).__module__.partition(".")[0]


def _of_pool(pool: Any) -> dict[str, Any]:
    if not isinstance(pool.conninfo, str):
        raise ConfigError(f"this {_kind(pool)} finds out where to connect by a function: give Holdfast a URL instead")
    given = dict(pool.kwargs) if isinstance(pool.kwargs, dict) else {}
    known = {name: value for name, value in given.items() if name in libpq_options()}
    return {**psycopg.conninfo.conninfo_to_dict(pool.conninfo), **known}


def _of_engine(engine: Any) -> dict[str, Any]:
    url = engine.url
    if url.get_backend_name() != "postgresql":
        raise ConfigError(
            f"this {_kind(engine)} is no engine for PostgreSQL: give Holdfast the URL of its store instead"
        )
    # What only the engine's driver knows, such as asyncpg's own options, says nothing of where the database is.
    known = {name: value for name, value in url.query.items() if name in libpq_options()}
    place = (url.username, url.password, url.host, url.port, url.database)
    return {**known, **{name: value for name, value in zip(_PLACE, place, strict=True) if value is not None}}


def _url(existing: Any, options: dict[str, Any]) -> str:
    user, password, host, port, database = (str(options.pop(name, None) or "") for name in _PLACE)
    if "," in host:
        raise ConfigError(f"this {_kind(existing)} has several hosts: give Holdfast a URL with all of them instead")
    who = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
    at = (f"{who}@" if who else "") + quote(host, safe=":" if host.startswith("[") else "")
    where = at + (f":{port}" if port else "")
    query = urlencode({name: value for name, value in options.items() if value is not None}, quote_via=quote)
    return f"postgresql://{where}/{quote(database, safe='')}" + (f"?{query}" if query else "")
