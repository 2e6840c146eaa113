"""The live updates of open pages: a word each second in which something happened, and a sign of life else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ... import __version__
from ..site import Site, site_of

PAUSE = 1.0
SIGN_OF_LIFE = 10
"""After so many pauses without news, a page is told that the stream is alive."""
FEW = 20
"""Up to so many open pages are told each second; the more there are, the less often each is."""


async def live_updates(request: Request) -> Response:
    """Stream a word whenever something has happened."""
    return StreamingResponse(
        _updates(site_of(request)), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
    )


async def _updates(site: Site) -> AsyncIterator[str]:
    site.open_pages += 1
    try:
        yield "retry: 2000\n\n"
        told: tuple[int, str | None] = (-1, None)
        quiet = 0
        while not site.stopping:
            state = site.recent.state()
            news, quiet = (state.events, state.trouble), quiet + 1
            if news != told or quiet >= SIGN_OF_LIFE:
                said = {"version": __version__, "trouble": state.trouble, "news": news != told}
                yield f"data: {msgspec.json.encode(said).decode()}\n\n"
                told, quiet = news, 0
            await asyncio.sleep(PAUSE * max(1.0, site.open_pages / FEW))
    finally:
        site.open_pages -= 1
