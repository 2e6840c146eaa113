"""The URL of a store that is in a database of Django's, made from the settings of that database."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from django.db import connections
from django.utils.connection import ConnectionDoesNotExist

from ...errors import ConfigError
from .configuration import AliasSettings

VENDORS = ("postgresql", "sqlite")


def vendor_of(known: AliasSettings) -> str:
    """Return the kind of database in which the jobs of an alias are; raise for one that cannot have them."""
    assert known.database is not None
    where = f"HOLDFAST[{known.alias!r}]: DATABASE={known.database!r}"
    try:
        vendor: str = connections[known.database].vendor
    except ConnectionDoesNotExist:
        raise ConfigError(f"{where}: DATABASES has no such alias; it has {', '.join(connections)}") from None
    if vendor not in VENDORS:
        raise ConfigError(
            f"{where} is a {vendor} database, and jobs can be in PostgreSQL or SQLite; give a 'URL' to another store"
        )
    return vendor


def place_of(database: str) -> tuple[object, ...]:
    """Return what tells whether a database is still the one that it was: test runners change its name."""
    found = connections.settings[database]
    return tuple(found.get(key) for key in ("ENGINE", "NAME", "HOST", "PORT", "USER", "PASSWORD"))


def url_of(known: AliasSettings) -> str:
    """Return the URL of the store in the database of an alias."""
    assert known.database is not None
    if vendor_of(known) == "sqlite":
        return _sqlite(known, connections.settings[known.database])
    from ...store.postgres.url import built, libpq_options

    given = connections[known.database].get_connection_params()
    options = {name: value for name, value in given.items() if name in libpq_options() and value is not None}
    whole = {**options, **known.store, "schema": known.namespace}
    return built(f"database {known.database!r} of Django's", whole)


def _sqlite(known: AliasSettings, database: Mapping[str, Any]) -> str:
    name = os.fspath(database["NAME"])
    if name == ":memory:" or "mode=memory" in name:
        raise ConfigError(
            f"HOLDFAST[{known.alias!r}]: the database {known.database!r} is in memory, which no worker reaches: give "
            "it a file as NAME"
        )
    timeout = (database.get("OPTIONS") or {}).get("timeout")
    options = {**({} if timeout is None else {"busy_timeout": timeout}), **known.store, "namespace": known.namespace}
    return f"sqlite:///{quote(os.path.abspath(name))}?{urlencode(options)}"
