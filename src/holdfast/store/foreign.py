"""Connections that callers bring, recognised without importing a driver that they do not use."""

from __future__ import annotations

import sys
from typing import Any, Literal, TypeAlias

Kind = Literal["alchemy", "alchemy-async", "django"]
_KINDS: tuple[tuple[Kind, str, tuple[str, ...]], ...] = (
    ("alchemy-async", "sqlalchemy.ext.asyncio", ("AsyncSession", "AsyncConnection", "async_scoped_session")),
    ("alchemy", "sqlalchemy.orm", ("Session", "scoped_session")),
    ("alchemy", "sqlalchemy.engine", ("Connection",)),
    ("django", "django.db.backends.base.base", ("BaseDatabaseWrapper",)),
    ("django", "django.utils.connection", ("ConnectionProxy",)),
)
Foreign: TypeAlias = Any
"""A connection of a driver, of SQLAlchemy or of Django, none of which need be installed."""

LENT = (
    "job.complete() and job.prepare() need a transaction of their own, and in a test the jobs are in the test's: "
    "test such a handler on a store of its own, with holdfast.testing.isolate(app) or on a file"
)


def is_a(connection: Foreign, module: str, *names: str) -> bool:
    """True when the connection is of one of these classes; there is none of a module that is not imported."""
    found = sys.modules.get(module)
    kinds = [kind for name in names if isinstance(kind := getattr(found, name, None), type)]
    return isinstance(connection, tuple(kinds))


def layer(connection: Foreign) -> Kind | None:
    """Return which library the connection is of, when it lies above a driver."""
    return next((kind for kind, module, names in _KINDS if is_a(connection, module, *names)), None)


def describe(connection: Foreign) -> str:
    """Return what the connection is, for people."""
    return f"{type(connection).__module__}.{type(connection).__qualname__}"


def alchemy_connection(connection: Foreign) -> Foreign:
    """Return SQLAlchemy's connection, its transaction begun: a session's own, or the one given.

    An asynchronous session gives an awaitable of it.
    """
    if is_a(connection, "sqlalchemy.engine", "Connection"):
        return connection
    if is_a(connection, "sqlalchemy.ext.asyncio", "AsyncConnection"):
        return _itself(connection)
    return connection.connection()


async def _itself(connection: Foreign) -> Foreign:
    return connection


def django_connection(connection: Foreign) -> Foreign:
    """Return the wrapper of one database, open: the one given, or that of `django.db.connection` in this thread."""
    if is_a(connection, "django.utils.connection", "ConnectionProxy"):
        connection = connection._connections[connection._alias]
    connection.ensure_connection()
    return connection
