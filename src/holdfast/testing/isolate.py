"""An app with a store of its own, for as long as a test lasts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..app import Holdfast
from ..errors import ConfigError
from ..store.sqlite import SqliteStore


@contextmanager
def isolate(app: Holdfast, clock: Callable[[], int] | None = None) -> Iterator[Holdfast]:
    """The app works on an empty store in memory, whatever its URL says, with this clock; afterwards on its own again.

    The app must not be open, neither before nor after.
    """
    own, store = app.store, SqliteStore("memory://", clock=clock)
    _swap(app, store)
    try:
        yield app
    finally:
        app.sync.close()
        _swap(app, own)
        store.forget()


def _swap(app: Holdfast, store: object) -> None:
    if app.loop is not None:
        raise ConfigError("this app is open; isolate() it before it is opened, and close it before the block ends")
    app.store = app.client.store = store  # type: ignore[assignment]
