"""The apps of a Django project by import path, set up: `holdfast worker holdfast.contrib.django.project:default`."""

from __future__ import annotations

import os

from ...app.app import Holdfast
from ...errors import ConfigError
from ...executor.call import SETUP
from .aliases import get_app


def __getattr__(name: str) -> Holdfast:
    """Return the app of an alias, once Django is set up and all tasks are known."""
    if name.startswith("_"):
        raise AttributeError(name)
    return project_app(name)


def project_app(alias: str) -> Holdfast:
    """Return the app of an alias, with the tasks of every installed app."""
    import django
    from django.core.exceptions import ImproperlyConfigured

    from .configuration import alias_settings

    os.environ.setdefault(SETUP, "django:setup")  # for the processes of its workers
    try:
        django.setup()
        alias_settings(alias)
    except ImproperlyConfigured as error:
        raise ConfigError(f"{error} (set DJANGO_SETTINGS_MODULE, or use manage.py holdfast)") from error
    return get_app(alias)
