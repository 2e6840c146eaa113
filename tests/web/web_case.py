"""What tests of the server share: a client whose every answer is held against the OpenAPI document."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import uvicorn
from jsonschema import Draft202012Validator
from starlette.applications import Starlette

from holdfast import Holdfast
from holdfast.web import create_app
from holdfast.web.api import ENDPOINTS
from holdfast.web.api.description.openapi import document
from holdfast.web.server import Place, WebServer, listening

API = "/api/v1"
TOKEN = "operator-token-0123456789"
VIEWER = "viewer-token-0123456789"
OPERATOR = {"authorization": f"Bearer {TOKEN}"}
DOCUMENT = document(ENDPOINTS)


def check_value(schema: dict[str, Any], value: Any) -> None:
    """Raise when a value is not as a schema of the document says."""
    Draft202012Validator({**schema, "components": DOCUMENT["components"]}).validate(value)


def operation_of(request: httpx.Request) -> dict[str, Any] | None:
    """Return what the document says of a request."""
    parts = request.url.path.split("/")
    for path, methods in DOCUMENT["paths"].items():
        known = path.split("/")
        if len(known) == len(parts) and all(
            here == there or here[:1] == "{" for here, there in zip(known, parts, strict=True)
        ):
            found: dict[str, Any] | None = methods.get(request.method.lower())
            return found
    return None


async def conforms(response: httpx.Response) -> None:
    """Raise when an answer of the API, or what was asked successfully, is not as the document says."""
    operation = operation_of(response.request)
    if operation is None or response.headers.get("content-type", "").startswith("text/event-stream"):
        return
    await response.aread()
    answers = operation["responses"]
    media = response.headers["content-type"].partition(";")[0]
    described = answers.get(str(response.status_code), answers["default"])["content"]
    assert media in described, f"{response.request.method} {response.request.url}: {media} is not described"
    check_value(described[media]["schema"], response.json())
    if response.is_success:
        given = {name for name, _ in response.request.url.params.multi_items()}
        assert given <= {each["name"] for each in operation["parameters"]}
        if response.request.content and "requestBody" in operation:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            check_value(schema, json.loads(response.request.content))


@contextlib.asynccontextmanager
async def asking(
    web: Starlette, headers: dict[str, str] | None = None, **options: Any
) -> AsyncIterator[httpx.AsyncClient]:
    """The application is open; yield a client of it, whose paths begin below the API."""
    async with web.router.lifespan_context(web):
        transport = httpx.ASGITransport(web, raise_app_exceptions=False, **options)
        base = f"http://localhost{API}"
        async with httpx.AsyncClient(
            transport=transport, base_url=base, headers=headers, event_hooks={"response": [conforms]}
        ) as client:
            yield client


@contextlib.asynccontextmanager
async def serving(app: Holdfast | str, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    """An application for the app is open; yield a client of it."""
    async with asking(create_app(app, **options)) as client:
        yield client


@contextlib.asynccontextmanager
async def on_port(web: Starlette, place: Place | None = None) -> AsyncIterator[tuple[str, WebServer]]:
    """The application listens on a free port; yield its address and the server."""
    place = place or Place(port=0)
    listener = listening(place)
    started = asyncio.Event()
    config = uvicorn.Config(web, lifespan="on", log_config=None, access_log=False, timeout_graceful_shutdown=10)
    server = WebServer(config, web.state.site, started.set)
    task = asyncio.create_task(server.serve([listener]))
    try:
        await asyncio.wait_for(started.wait(), 20)
        yield place.address(listener.getsockname()[1]).rstrip("/"), server
    finally:
        server.should_exit = True
        await asyncio.wait_for(task, 20)


def kind_of(response: httpx.Response) -> str:
    """Return the stable word of a problem."""
    assert response.headers["content-type"] == "application/problem+json", response.text
    found: str = response.json()["type"]
    return found.removeprefix("urn:holdfast:problem:")
