"""System checks: what is wrong with the setting `HOLDFAST`, its stores and their schemas, and what to do about it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import connections
from django.db.utils import DatabaseError

from ...app.app import Holdfast
from ...errors import HoldfastError
from ...store import open_store, same_jobs
from .configuration import EXAMPLE, AliasSettings, alias_settings, aliases
from .database_url import url_of, vendor_of
from .schema import schema_of, takes_tables_of_others
from .test_mode import in_tests

CONFIGURE = f"In settings.py, write {EXAMPLE}; see docs/guide/django.md."


def check_settings(app_configs: Sequence[AppConfig] | None = None, **kwargs: object) -> list[CheckMessage]:
    """Check the setting, alias by alias."""
    try:
        names = aliases()
    except HoldfastError as error:
        return [Error(str(error), hint=CONFIGURE, id="holdfast.E001")]
    found: list[CheckMessage] = []
    if "default" not in names:
        found.append(
            Warning(
                "HOLDFAST has no alias 'default', to which `holdfast.contrib.django.task` belongs.",
                hint="Name one alias 'default', or declare tasks with get_app(alias).task.", id="holdfast.W002",
            )
        )  # fmt: skip
    known = [each for name in names if isinstance(each := _parsed(name, found), AliasSettings)]
    found += _shared(known)
    return found


def _parsed(alias: str, found: list[CheckMessage]) -> AliasSettings | None:
    """Return what is said of an alias, or `None` where it is wrong, which is added to `found`."""
    try:
        known = alias_settings(alias)
    except HoldfastError as error:
        found.append(Error(str(error), hint=CONFIGURE, id="holdfast.E003"))
        return None
    try:
        _try(known)
    except (HoldfastError, TypeError) as error:
        found.append(
            Error(
                f"HOLDFAST[{alias!r}]: {error}", id="holdfast.E004",
                hint="Correct the URL, the DATABASE or the OPTIONS of this alias.",
            )
        )  # fmt: skip
        return None
    found += _advice(known)
    return known


def _try(known: AliasSettings) -> None:
    """Raise when the store or the options of an alias cannot be."""
    if known.database is None:
        store = open_store(known.url)
    elif in_tests():
        vendor_of(known)  # the database of tests may be in memory
        store = open_store("memory://")
    else:
        store = open_store(url_of(known))
    Holdfast(store=store, **known.options)
    if known.on_commit is not None:
        connections[known.on_commit]


def _advice(known: AliasSettings) -> Iterable[CheckMessage]:
    """Yield what works, and is likely not meant."""
    where = f"HOLDFAST[{known.alias!r}]"
    if known.database is None and known.on_commit is None:
        yield Warning(
            f"{where}: ON_COMMIT is False, and the store is not in a database of this project: what is enqueued "
            "inside transaction.atomic runs before the commit, and even after a rollback.",
            hint="Leave ON_COMMIT out, or keep the jobs in the database itself with 'DATABASE'.",
            id="holdfast.W005",
        )
    if (known.url or "").startswith("memory:"):
        yield Warning(
            f"{where}: a memory:// store is this process's own, so that no worker sees its jobs.",
            hint="Use it in tests alone; there it is used by itself.",
            id="holdfast.W006",
        )
    if known.database is not None and vendor_of(known) == "sqlite" and not _takes_lock_first(known.database):
        yield Warning(
            f"{where}: the SQLite database {known.database!r} begins transactions without the write lock, so that one "
            "which has read before it enqueues may end with 'database is locked'.",
            hint='Set "OPTIONS": {"transaction_mode": "IMMEDIATE"} for this database.',
            id="holdfast.W007",
        )


def _takes_lock_first(database: str) -> bool:
    options: dict[str, Any] = connections.settings[database].get("OPTIONS") or {}
    return str(options.get("transaction_mode", "")).upper() in ("IMMEDIATE", "EXCLUSIVE")


def _shared(known: Sequence[AliasSettings]) -> Iterable[CheckMessage]:
    """Yield an error for each two aliases that have the same jobs: each would run the other's, or set them aside."""
    for index, one in enumerate(known):
        for other in known[:index]:
            if _is_same(one, other):
                yield Error(
                    f"HOLDFAST[{other.alias!r}] and HOLDFAST[{one.alias!r}] are the same store: workers of one would "
                    "take the jobs of the other.",
                    hint="Give one of them another NAMESPACE (in a URL, ?namespace=...), or use one alias.",
                    id="holdfast.E008",
                )


def _is_same(one: AliasSettings, other: AliasSettings) -> bool:
    if one.database is not None and other.database is not None:
        return (one.database, one.namespace) == (other.database, other.namespace)
    if in_tests() and (one.database or other.database):
        return False
    urls = [each.url if each.database is None else url_of(each) for each in (one, other)]
    return same_jobs(*(open_store(url) for url in urls))


def check_schemas(
    app_configs: Sequence[AppConfig] | None = None, databases: Sequence[str] | None = None, **kwargs: object
) -> Iterable[CheckMessage]:
    """Check that `migrate` has made the schema, in the databases that are asked about (`check --database`)."""
    for alias in _readable() if sys.argv[1:2] != ["migrate"] else ():  # which checks first, and then makes it
        known = alias_settings(alias)
        if known.database is None or known.database not in (databases or ()):
            continue
        try:
            current = schema_of(known).is_current()
        except (DatabaseError, HoldfastError) as error:
            yield Error(f"HOLDFAST[{alias!r}]: the schema cannot be read: {error}", id="holdfast.E009")
            continue
        if not current:
            yield Warning(
                f"HOLDFAST[{alias!r}]: the schema {known.namespace!r} is missing in the database {known.database!r}, "
                "or older than this Holdfast.",
                hint=f"Run manage.py migrate --database {known.database}.",
                id="holdfast.W010",
            )


def check_search_paths(
    app_configs: Sequence[AppConfig] | None = None, databases: Sequence[str] | None = None, **kwargs: object
) -> Iterable[CheckMessage]:
    """Check that PostgreSQL does not put the project's own tables into the schema of an alias."""
    for alias in _readable():
        known = alias_settings(alias)
        if known.database not in (databases or ()) or vendor_of(known) != "postgresql":
            continue
        try:
            taken = takes_tables_of_others(known)
        except DatabaseError:
            continue  # which is told of the schema
        if taken:
            yield (Error if taken == "from now on" else Warning)(
                f"HOLDFAST[{alias!r}]: the schema {known.namespace!r} is named like the role that connects to the "
                f"database {known.database!r}, or is in its search_path: PostgreSQL would make new tables of your "
                "project in that schema.",
                hint='Give this alias another name: "NAMESPACE": "jobs".',
                id="holdfast.E013" if taken == "from now on" else "holdfast.W014",
            )


def _readable() -> list[str]:
    """Return the aliases whose settings can be read; the others have their own check."""
    try:
        return [alias for alias in aliases() if not isinstance(alias_settings(alias), HoldfastError)]
    except HoldfastError:
        return []


register(check_settings)
register(check_schemas, Tags.database)
register(check_search_paths, Tags.database)
