"""The gate that every request passes: host, size, caller, role, and proof that a browser's page meant it."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from urllib.parse import urlencode, urlsplit

from starlette.requests import HTTPConnection, Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ...core.action import acting_as
from ...errors import HoldfastError
from ..address import root_of, route_path
from ..problem import Problem, wants_page
from ..site import Site
from .body import form_field, limited, too_large
from .identity import Identity

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
PROBES = ("/live", "/ready")
METRICS = "/metrics"
PUBLIC = ("/login", "/logout")
CSRF_HEADER = "x-csrf-token"
CSRF_FIELD = "csrf"
OnError = Callable[[Request, Exception], Awaitable[Response]]


class Gate:
    """Lets a request through to the routes, with `request.state.identity` and `request.state.csrf`, or refuses it."""

    def __init__(self, app: ASGIApp, site: Site, on_error: OnError) -> None:
        self._app = app
        self._site = site
        self._on_error = on_error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        path = route_path(scope)
        try:
            receive = self._checked(request, path, receive)
            if not await self._enter(request, path):
                await self._to_login(request)(scope, receive, send)
                return
            receive = await self._allowed(request, path, receive)
            await self._open(path)
        except HoldfastError as error:
            answer = await self._on_error(request, error)
            await answer(scope, receive, send)
            return
        with self._acting(request):
            await self._app(scope, receive, send)

    def _acting(self, request: Request) -> AbstractContextManager[None]:
        """Return a block in which what is done is done by the caller, also in the tasks that it starts: events say so.

        This is the one place that says so, for the API, the pages and what runs in the background.
        """
        identity: Identity | None = getattr(request.state, "identity", None)
        return nullcontext() if identity is None or request.method in SAFE else acting_as(identity.name)

    async def _open(self, path: str) -> None:
        """Open the app where no lifespan did; what needs no store is served without."""
        if path not in (*PROBES, METRICS, *PUBLIC) and not path.startswith("/static/"):
            await self._site.opened()

    def _checked(self, request: Request, path: str, receive: Receive) -> Receive:
        """Return a `receive` with a limit, when host and size are right."""
        host = request.headers.get("host", "")
        if path not in PROBES and not self._site.hosts.knows(host):
            raise Problem(
                400,
                "unknown-host",
                f"{host!r} is no name of this server: allow it with --allowed-host (allowed_hosts=)",
            )
        most = self._site.settings.max_body
        length = request.headers.get("content-length", "0")
        if length.isdecimal() and int(length) > most:
            raise too_large(most)
        return limited(receive, most)

    async def _enter(self, request: Request, path: str) -> bool:
        """Find out who asks; return whether they may come in, False when they must log in first."""
        if path in PROBES or path.startswith("/static/"):
            return True
        identity = await self._site.callers.identify(request)
        request.state.identity = identity
        request.state.csrf = self._site.callers.sessions.csrf(identity or Identity("nobody"))
        if identity is not None or path in PUBLIC:
            return True
        if (
            wants_page(request)
            and request.method in SAFE
            and not path.startswith("/api/")
            and self._site.callers.logs_in
        ):
            return False
        raise Problem(
            401, "unauthenticated", "who asks? Send Authorization: Bearer TOKEN, or log in",
            headers={"WWW-Authenticate": 'Bearer realm="holdfast"'},
        )  # fmt: skip

    def _to_login(self, request: Request) -> RedirectResponse:
        here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"{root_of(request)}/login?{urlencode({'next': here})}", 303)

    async def _allowed(self, request: Request, path: str, receive: Receive) -> Receive:
        """Return a `receive` when the caller may do what it asks for."""
        if request.method in SAFE:
            return receive
        if path not in PUBLIC:
            self._may_change(request.state.identity)
        return await self._meant(request, receive)

    def _may_change(self, identity: Identity | None) -> None:
        if self._site.settings.read_only:
            raise Problem(403, "read-only", "this server is read-only: nothing can be changed through it")
        if identity is None or not identity.operates:
            name = "nobody" if identity is None else identity.name
            raise Problem(403, "not-an-operator", f"{name} is a viewer, who sees all and changes nothing")

    async def _meant(self, request: Request, receive: Receive) -> Receive:
        """Return a `receive` unless a page of somebody else's may have sent this in the caller's name."""
        identity: Identity | None = request.state.identity
        if (identity is not None and identity.via == "token") or not from_browser(request):
            return receive
        if not same_origin(request):
            raise Problem(403, "other-origin", "this came from a page of another site")
        presented = request.headers.get(CSRF_HEADER)
        if presented is None and request.headers.get("content-type", "").startswith(
            "application/x-www-form-urlencoded"
        ):
            presented, receive = await form_field(receive, CSRF_FIELD)
        if not hmac.compare_digest((presented or "").encode("utf-8", "replace"), request.state.csrf.encode()):
            raise Problem(403, "csrf", "the page that sent this is out of date, or is not ours: load it again")
        return receive


def from_browser(request: HTTPConnection) -> bool:
    """Return whether a browser sent this: programs send neither of these."""
    return any(name in request.headers for name in ("origin", "sec-fetch-site", "cookie"))


def same_origin(request: HTTPConnection) -> bool:
    """Return whether a page of this server sent it, as far as the browser says."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host", "")
