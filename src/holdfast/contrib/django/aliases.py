"""The apps of a project, one for each alias of the setting `HOLDFAST`."""

from __future__ import annotations

import threading
from typing import cast

from ...app.app import Holdfast
from ...errors import ConfigError
from ...store import Store
from .configuration import DEFAULT

_apps: dict[str, Holdfast] = {}
_making = threading.Lock()


def get_app(alias: str = DEFAULT) -> Holdfast:
    """Return the app of an alias, always the same one.

    It can be called while modules are imported, before Django is set up: what is wrong with the settings, `manage.py
    check` says, and the first use of the store.
    """
    with _making:
        if alias not in _apps:
            _apps[alias] = _make(alias)
        return _apps[alias]


def made() -> dict[str, Holdfast]:
    """Return the apps that were asked for, by alias."""
    return dict(_apps)


def _make(alias: str) -> Holdfast:
    from .atomic import transaction_of_caller
    from .configuration import alias_settings
    from .connections import with_clean_connections
    from .signals import listen_to
    from .store import AliasStore
    from .sync import DjangoSync

    store = cast(Store, AliasStore(alias))
    try:
        app = Holdfast(store=store, **alias_settings(alias).options)
    except (ConfigError, TypeError):  # which `manage.py check` shows
        app = Holdfast(store=store)
    app.registry.around = with_clean_connections
    app.client.transaction_of_caller = transaction_of_caller(app, alias)
    app.sync = sync = DjangoSync(app)
    app.client.opened_by(sync.open_by_itself)
    listen_to(alias, app)
    return app
