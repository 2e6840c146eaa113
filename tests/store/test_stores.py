"""Every store has every method of the contract, whichever file it is in."""

from __future__ import annotations

import pytest

from holdfast.store.contract import Store
from holdfast.store.postgres import PostgresStore
from holdfast.store.redis import RedisStore
from holdfast.store.sqlite import SqliteStore


@pytest.mark.parametrize("store", [SqliteStore, RedisStore, PostgresStore])
def test_a_store_has_every_method_of_the_contract(store: type) -> None:
    methods = {name for name in dir(Store) if callable(getattr(Store, name)) and not name.startswith("_")}
    assert methods
    assert {name for name in methods if not callable(getattr(store, name, None))} == set()
