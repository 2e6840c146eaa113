"""The one ASGI application: the API, the dashboard, logins, probes and metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypedDict

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from ..app.app import Holdfast
from ..app.loader import load_app
from ..errors import ConfigError, HoldfastError
from . import api, dashboard
from .address import route_path
from .auth import login
from .auth.callers import Callers
from .auth.gate import Gate
from .auth.identity import AuthHook
from .auth.passwords import UserFile
from .auth.sessions import Sessions
from .auth.tokens import AccessToken, access_token
from .headers import SecurityHeaders
from .probes import PROBES
from .problem import problem_of, problem_response, wants_page
from .redact import Redaction, Redactor
from .settings import WebSettings
from .site import Site
from .static import STATIC_FILES
from .templates import page


class CreateOptions(TypedDict, total=False):
    """What `create_app` takes beside the app."""

    tokens: Iterable[str | AccessToken]
    users: str | Path | None
    auth: AuthHook | None
    secret: str | bytes | None
    redact: Redaction | None
    settings: WebSettings | None


def create_app(
    app: Holdfast | str,
    *,
    tokens: Iterable[str | AccessToken] = (),
    users: str | Path | None = None,
    auth: AuthHook | None = None,
    secret: str | bytes | None = None,
    redact: Redaction | None = Redaction(),  # noqa: B008 - it is frozen
    settings: WebSettings | None = None,
) -> Starlette:
    """Return the application for an app, its import path (`module:app`) or the URL of a store alone.

    tokens: those of programs, which are operators; or `access_token(text, role, name)`.
    users: a file of people who may log in, `NAME:ROLE:HASH` on each line.
    auth: your own way to know callers: a function of the connection that returns an `Identity` or `None`.
    secret: what signs logins; by default a new one, so that they end with the process.
    redact: which fields are hidden; `None` hides none.
    """
    chosen = settings or WebSettings()
    given = [tokens] if isinstance(tokens, str) else tokens
    known = [each if isinstance(each, AccessToken) else access_token(each) for each in given]
    sessions = Sessions(secret, chosen.session_seconds, chosen.clock)
    callers = Callers(chosen, sessions, known, None if users is None else UserFile(Path(users)), auth)
    site = Site(_app(app), chosen, callers, Redactor(redact))
    return _assembled(site)


def _app(given: Holdfast | str) -> Holdfast:
    if isinstance(given, Holdfast):
        return given
    if not isinstance(given, str):
        raise ConfigError(f"create_app({given!r}): give an app, 'module:app' or the URL of a store")
    return Holdfast(given) if "://" in given else load_app(given)


def _assembled(site: Site) -> Starlette:
    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await site.start()
        try:
            yield
        finally:
            await site.close()

    routes: list[BaseRoute] = [*PROBES, STATIC_FILES, *login.ROUTES, *api.routes(), *dashboard.routes()]
    made = Starlette(
        routes=routes,
        middleware=[Middleware(SecurityHeaders), Middleware(Gate, site=site, on_error=_on_error)],
        exception_handlers={HoldfastError: _on_error, HTTPException: _on_error, Exception: _on_error},
        lifespan=lifespan,
    )
    made.state.site = site
    return made


async def _on_error(request: Request, error: Exception) -> Response:
    """Answer with a problem; to people in a browser, with a page."""
    if route_path(request.scope).startswith("/api/") or not wants_page(request):
        return problem_response(error)
    problem = problem_of(error)
    answer = page(request, "error.html", problem.status, problem=problem.body())
    answer.headers.update(problem.headers)
    return answer
