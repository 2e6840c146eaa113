"""An app with a store of its own, for as long as a test lasts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..app.app import Holdfast
from ..errors import ConfigError
from ..store.contract import Store
from ..store.sqlite import SqliteStore


@contextmanager
def isolate(app: Holdfast, clock: Callable[[], int] | None = None) -> Iterator[Holdfast]:
    """Let the app work on an empty store in memory, with this clock; afterwards on its own store again.

    The app must not be open, neither before nor after.
    """
    app.sync.close()  # which may have opened by itself
    own, store = app.store, SqliteStore("memory://", clock=clock)
    _swap(app, store)
    try:
        yield app
    finally:
        app.sync.close()
        _swap(app, own)
        store.forget()


def _swap(app: Holdfast, store: Store) -> None:
    if app.loop is not None:
        raise ConfigError("this app is open; isolate() it before it is opened, and close it before the block ends")
    app.store = store
    app.client.use(store)
