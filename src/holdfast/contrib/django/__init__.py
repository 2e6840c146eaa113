"""Holdfast in Django: `holdfast.contrib.django` in `INSTALLED_APPS`, and `HOLDFAST`, which says where jobs are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...distribution import pip_install
from ...errors import MissingExtra

try:
    import django as _django  # noqa: F401
except ImportError as error:
    raise MissingExtra(f"holdfast.contrib.django needs Django, which is missing: {pip_install('django')}") from error

from .aliases import get_app

if TYPE_CHECKING:
    from ...app.decorator import Decorator

    task: Decorator
    """The decorator of the app `default`: `@task`, or `@task(queue="mail")`. For another, `get_app(alias).task`."""

__all__ = ["get_app", "task"]


def __getattr__(name: str) -> object:
    if name == "task":
        return get_app().task
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
