"""FastAPI and Starlette: a lifespan, the app as a dependency, and the dashboard below a path."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from ..distribution import pip_install
from ..errors import ConfigError, MissingExtra
from .asgi import STATE, Lifespan, lifespan, remember

try:
    from fastapi import Depends
    from starlette.applications import Starlette
    from starlette.requests import HTTPConnection
except ImportError as error:
    raise MissingExtra(f"holdfast.contrib.fastapi needs fastapi, which is missing: {pip_install('fastapi')}") from error

from ..app.app import Holdfast

if TYPE_CHECKING:
    from ..web.application import CreateOptions

__all__ = ["HoldfastDep", "Lifespan", "current_holdfast", "lifespan", "mount_dashboard"]


def current_holdfast(connection: HTTPConnection) -> Holdfast:
    """Return the app of this web application: a dependency, which `dependency_overrides` may replace."""
    found = getattr(connection.app.state, STATE, None)
    if not isinstance(found, Holdfast):
        raise ConfigError(
            "this web application has no Holdfast app: make it with FastAPI(lifespan=lifespan(jobs)); in tests, "
            "`with TestClient(api) as client:` runs the lifespan"
        )
    return found


HoldfastDep = Annotated[Holdfast, Depends(current_holdfast)]
"""A parameter of a view: `async def view(jobs: HoldfastDep)`."""


def mount_dashboard(
    application: Starlette, app: Holdfast, path: str = "/jobs", **options: Unpack[CreateOptions]
) -> Starlette:
    """Mount the dashboard and the HTTP API below a path, and return it; the options are those of `create_app`.

    It opens and closes with the lifespan of the application, whatever that does else.
    """
    from ..web import create_app

    if not path.startswith("/") or path.rstrip("/") == "":
        raise ConfigError(f"path={path!r}: a path below which the dashboard is found, such as '/jobs'")
    web = create_app(app, **options)
    application.mount(path.rstrip("/"), web)
    own = application.router.lifespan_context

    @asynccontextmanager
    async def both(given: Any) -> AsyncIterator[Any]:
        async with own(given) as state, web.router.lifespan_context(web):
            remember(given, app)
            yield state

    application.router.lifespan_context = both
    return web
