"""The setting `HOLDFAST`: for each alias, where its jobs are kept and how they are taken in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS

from ...errors import ConfigError
from ...store.namespace import check_namespace

DEFAULT = "default"
KEYS = ("URL", "DATABASE", "NAMESPACE", "ON_COMMIT", "OPTIONS", "STORE")
EXAMPLE = 'HOLDFAST = {"default": {"DATABASE": "default"}}'
_OF_A_DATABASE = ("NAMESPACE", "STORE")


class AliasSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What `HOLDFAST` says of one alias."""

    alias: str
    url: str | None = None
    """The store, where it is not in a database of Django's."""
    database: str | None = None
    """The alias of the database of Django's in which the jobs are."""
    namespace: str = "holdfast"
    on_commit: str | None = None
    """The database whose commit jobs for a store elsewhere wait for; `None`: they are enqueued at once."""
    options: Mapping[str, Any] = {}
    """Arguments of `Holdfast()`."""
    store: Mapping[str, Any] = {}
    """Options of the store's URL, which is made from the database's settings."""


def aliases() -> list[str]:
    """Return every alias of the setting."""
    return list(_whole())


def alias_settings(alias: str) -> AliasSettings:
    """Return what is said of an alias; raise `ConfigError` that says what is wrong with it."""
    whole = _whole()
    if alias not in whole:
        raise ConfigError(f"HOLDFAST has no alias {alias!r}; it has {', '.join(whole) or 'none'}")
    given = whole[alias]
    if not isinstance(given, Mapping):
        raise ConfigError(f"HOLDFAST[{alias!r}] is {given!r}: a dictionary was expected, as in {EXAMPLE}")
    return _parsed(alias, given)


def _whole() -> Mapping[str, Any]:
    found = getattr(settings, "HOLDFAST", None)
    if not isinstance(found, Mapping) or not found:
        raise ConfigError(f"there is no setting HOLDFAST: write {EXAMPLE}")
    if stray := [key for key in KEYS if key in found]:
        raise ConfigError(f"HOLDFAST[{stray[0]!r}] stands outside of an alias: write {EXAMPLE}")
    return found


def _parsed(alias: str, given: Mapping[str, Any]) -> AliasSettings:
    where = f"HOLDFAST[{alias!r}]"
    for key in given:
        if key not in KEYS:
            raise ConfigError(f"{where}: {key!r} is no key of it; known are {', '.join(KEYS)}")
    url, database = given.get("URL"), given.get("DATABASE")
    if (url is None) == (database is None):
        raise ConfigError(f"{where} needs either 'URL' or 'DATABASE', and not both: write {EXAMPLE}")
    if database is None:
        for key in _OF_A_DATABASE:
            if key in given:
                raise ConfigError(f"{where}: {key!r} goes with 'DATABASE'; in a URL, write it as an option of the URL")
    elif "ON_COMMIT" in given:
        raise ConfigError(f"{where}: 'ON_COMMIT' goes with 'URL'; jobs in a database are in its transactions by nature")
    return AliasSettings(
        alias=alias, url=url, database=database,
        namespace=check_namespace(given.get("NAMESPACE", "holdfast"), f"{where}: NAMESPACE={given.get('NAMESPACE')!r}"),
        on_commit=_on_commit(where, given) if database is None else None,
        options=_table(where, given, "OPTIONS"), store=_table(where, given, "STORE"),
    )  # fmt: skip


def _on_commit(where: str, given: Mapping[str, Any]) -> str | None:
    said = given.get("ON_COMMIT", True)
    if isinstance(said, bool):
        return DEFAULT_DB_ALIAS if said else None
    if not isinstance(said, str):
        raise ConfigError(f"{where}: ON_COMMIT={said!r}: True, False, or the alias of a database")
    return said


def _table(where: str, given: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    table = given.get(key, {})
    if not isinstance(table, Mapping):
        raise ConfigError(f"{where}: {key}={table!r}: a dictionary was expected")
    return table
