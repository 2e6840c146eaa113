"""The store of an alias, found anew when the settings say another: tests rename the database, and override settings."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from asgiref.sync import sync_to_async
from django.db import connections

from ...store import Store, open_store
from ...store.sqlite import SqliteStore
from .configuration import AliasSettings, alias_settings
from .database_url import place_of, url_of, vendor_of
from .test_mode import in_tests

T = TypeVar("T")


class AliasStore:
    """Passes everything on to the store that the settings name now.

    In tests that is the transaction of the test itself, on the connection of the thread in which the test runs; for an
    alias with a URL, a store in memory.
    """

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._place: tuple[object, ...] | None = None
        self._store: Store | None = None
        self._memory: SqliteStore | None = None
        self._lent: weakref.WeakKeyDictionary[Any, Store] = weakref.WeakKeyDictionary()

    def __getattr__(self, name: str) -> Any:  # whatever a store has: it is the contract's type that counts
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.current(), name)

    def current(self) -> Store:
        """Return the store that the settings name now."""
        known = alias_settings(self._alias)
        if in_tests():
            return self._for_tests(known)
        place = (known.url,) if known.database is None else (*place_of(known.database), known.namespace, known.store)
        if self._store is None or place != self._place:
            self._store = open_store(known.url if known.database is None else url_of(known))
            self._place = place
        return self._store

    @property
    def lent(self) -> bool:
        """Whether it is on the connection of a test, so that commands of this process reach it, and no others."""
        return in_tests()

    def twin(self) -> Store:
        """Return a store for another event loop; this one, where the store is for all of them."""
        store = self.current()
        twin = store.twin()
        return cast(Store, self) if twin is store else twin

    def forget(self) -> None:
        """Have the next test begin with an empty store, where that is in memory."""
        if self._memory is not None:
            self._memory.forget()
            self._memory = None

    def _for_tests(self, known: AliasSettings) -> Store:
        if known.database is None:
            self._memory = self._memory or SqliteStore("memory://")
            return self._memory
        try:
            loop: object = asyncio.get_running_loop()  # which some parts of a store are bound to
        except RuntimeError:
            return lent_store(known)
        if loop not in self._lent:
            self._lent[loop] = lent_store(known)
        return self._lent[loop]


def lent_store(known: AliasSettings) -> Store:
    """Return a store on the connection that the thread of the test has to the database of an alias."""
    database = known.database
    assert database is not None

    def lend(work: Callable[[Any], T]) -> Awaitable[T]:
        return sync_to_async(_on_connection, thread_sensitive=True)(database, work)

    if vendor_of(known) == "sqlite":
        from ...store.sqlite.transaction.lent import LentSqliteStore

        return LentSqliteStore(known.namespace, lend)
    from ...store.postgres.transaction.lent import LentPostgresStore

    return LentPostgresStore(url_of(known), lend)


def _on_connection(database: str, work: Callable[[Any], T]) -> T:
    """Do work with the driver's connection that this thread has."""
    wrapper = connections[database]
    wrapper.ensure_connection()
    return work(wrapper.connection)
