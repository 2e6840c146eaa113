"""One description of each endpoint: routes, checks of what comes in, and the OpenAPI document are made from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ...app.app import Holdfast
from ..auth.identity import Identity
from ..json_bytes import json_bytes
from ..site import Site, caller_of, site_of
from .read import read_body, read_query

ROOT = "/api/v1"
Q = TypeVar("Q")
B = TypeVar("B")
Handler: TypeAlias = Callable[["ApiCall[Any, Any]"], Awaitable[object]]
Shape: TypeAlias = Any
"""A type by which JSON is described: a struct, a TypedDict, a list of one."""


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No parameters, or no body."""


@dataclass(frozen=True)
class ApiCall(Generic[Q, B]):
    """One request of the API, checked."""

    request: Request
    site: Site
    identity: Identity
    query: Q
    body: B

    @property
    def app(self) -> Holdfast:
        """The app, which is open."""
        return self.site.app


@dataclass(frozen=True)
class Endpoint:
    """One way in: what it takes, and what it answers."""

    method: str
    path: str
    handler: Handler
    group: str
    query: type[msgspec.Struct] = Nothing
    body: type[msgspec.Struct] | None = None
    answer: Shape = None
    media: str = "application/json"

    @property
    def name(self) -> str:
        """The name of the operation."""
        return self.handler.__name__

    @property
    def changes(self) -> bool:
        """True when it is for operators."""
        return self.method not in ("GET", "HEAD")

    async def serve(self, request: Request) -> Response:
        """Answer a request of its path and method."""
        site, identity = site_of(request), caller_of(request)
        query = read_query(request, self.query)
        body = None if self.body is None else await read_body(request, self.body)
        call = ApiCall(request, site, identity, query, body)
        if not self.changes:
            return _response(await self.handler(call))
        found = await self.handler(call)
        site.glance.forget()
        return _response(found)


def route_of(path: str, endpoints: list[Endpoint]) -> Route:
    """Return the route of a path, which knows all of its methods and names them to those who use another."""
    by_method = {each.method: each for each in endpoints}

    async def serve(request: Request) -> Response:
        return await by_method["GET" if request.method == "HEAD" else request.method].serve(request)

    return Route(ROOT + path, serve, methods=list(by_method))


class EndpointGroup:
    """The endpoints of one kind of thing, in the order in which they are declared."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.endpoints: list[Endpoint] = []

    def add(
        self,
        method: str,
        path: str,
        *,
        query: type[msgspec.Struct] = Nothing,
        body: type[msgspec.Struct] | None = None,
        answer: Shape = None,
        media: str = "application/json",
    ) -> Callable[[Callable[[ApiCall[Q, B]], Awaitable[object]]], Handler]:
        """Return a decorator: the function answers requests of this method and path. Its docstring describes it."""

        def declare(handler: Callable[[ApiCall[Q, B]], Awaitable[object]]) -> Handler:
            kept = cast(Handler, handler)
            self.endpoints.append(Endpoint(method, path, kept, self.name, query, body, answer, media))
            return kept

        return declare


class Answered(msgspec.Struct, frozen=True):
    """An answer with another status than 200."""

    status: int
    body: object


def _response(found: object) -> Response:
    if isinstance(found, Response):
        return found
    status, body = (found.status, found.body) if isinstance(found, Answered) else (200, found)
    return Response(json_bytes(body), status, media_type="application/json")
