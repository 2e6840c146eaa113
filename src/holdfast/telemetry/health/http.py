"""As much of HTTP/1.1 as probes and scrapers need: one small GET or HEAD a connection, in bounded size and time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

import msgspec

log = logging.getLogger("holdfast")
MOST_HEAD = 16_384
"""Bytes of a request at most; bodies are not read."""
PATIENCE = 5.0
"""Seconds that a caller has to send its request, and again to take the answer."""
MOST_CALLERS = 64
"""Connections at once; others are closed."""
JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
_WORDS = {
    200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 408: "Request Timeout",
    431: "Request Header Fields Too Large", 500: "Internal Server Error", 503: "Service Unavailable",
}  # fmt: skip


class HttpRequest(msgspec.Struct, frozen=True):
    """What a caller asked for."""

    method: str
    path: str
    headers: dict[str, str] = {}
    """By their names in lower case."""


class HttpResponse(msgspec.Struct, frozen=True):
    """What it is answered."""

    body: bytes
    kind: str = TEXT
    code: int = 200
    allow: str = ""


Route = Callable[[HttpRequest], Awaitable[HttpResponse]]


class Refused(Exception):
    """The request cannot be answered, but by an error."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


class HttpServer:
    """Answers requests for some paths, in the event loop where it is used."""

    def __init__(self, routes: Mapping[str, Route]) -> None:
        self._routes = routes
        self._callers = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection, and close it."""
        self._callers += 1
        try:
            if self._callers <= MOST_CALLERS:
                await self._answer(reader, writer)
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            pass  # the caller has left, or is too slow
        except asyncio.CancelledError:
            pass  # the port closes; streams of Python 3.11 would log a cancelled caller as an error
        finally:
            self._callers -= 1
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method = "GET"
        try:
            request = await _read(reader)
            method = request.method
            response = await self._respond(request)
        except Refused as refused:
            response = HttpResponse(f"{refused}\n".encode(), code=refused.code)
        async with asyncio.timeout(PATIENCE):
            writer.write(_encoded(response, with_body=method != "HEAD"))
            await writer.drain()

    async def _respond(self, request: HttpRequest) -> HttpResponse:
        route = self._routes.get(request.path)
        if route is None:
            known = " ".join(sorted(self._routes))
            return HttpResponse(f"there is no such path; there are {known}\n".encode(), code=404)
        if request.method not in ("GET", "HEAD"):
            return HttpResponse(b"GET and HEAD only\n", code=405, allow="GET, HEAD")
        try:
            return await route(request)
        except Exception:
            log.exception("port_failed: %s could not be answered", request.path)
            return HttpResponse(b"this could not be answered; the log of the worker says why\n", code=500)


async def _read(reader: asyncio.StreamReader) -> HttpRequest:
    try:
        async with asyncio.timeout(PATIENCE):
            head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise Refused(431, f"a request has {MOST_HEAD} bytes at most") from None
    except TimeoutError:
        raise Refused(408, f"a request must come within {PATIENCE:g} s") from None
    first, *rest = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise Refused(400, "this is no request of HTTP/1.1")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
    return HttpRequest(words[0], words[1].partition("?")[0], headers)


def _encoded(response: HttpResponse, *, with_body: bool) -> bytes:
    lines = [
        f"HTTP/1.1 {response.code} {_WORDS[response.code]}",
        f"Content-Type: {response.kind}",
        f"Content-Length: {len(response.body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
        *([f"Allow: {response.allow}"] if response.allow else []),
    ]
    head = "".join(f"{line}\r\n" for line in lines).encode("latin-1") + b"\r\n"
    return head + response.body if with_body else head
