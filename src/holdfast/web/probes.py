"""Whether the server is well (`/live`, `/ready`), and the metrics of its store and of itself."""

from __future__ import annotations

import asyncio
import contextlib

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..errors import HoldfastError
from ..telemetry.metrics.exposition import OPEN, PLAIN, exposition, wants_open
from ..telemetry.metrics.process import of_this_process
from .site import site_of

PATIENCE = 5.0
"""Seconds that the store has to answer before the server is not ready."""


async def live(request: Request) -> Response:
    """Answer: the loop moves."""
    return JSONResponse({"live": True})


async def ready(request: Request) -> Response:
    """Answer whether the store can be reached, and the server does not stop."""
    site = site_of(request)
    if site.stopping:
        return _unready("stopping")
    try:
        async with asyncio.timeout(PATIENCE):
            await (await site.opened()).store.now_ms()
    except TimeoutError:
        return _unready(f"the store has not answered for {PATIENCE:g} s")
    except HoldfastError as error:  # no more than its kind: anyone may ask
        return _unready(f"the store cannot be used ({type(error).__name__})")
    return JSONResponse({"ready": True, "reasons": []})


def _unready(why: str) -> Response:
    return JSONResponse({"ready": False, "reasons": [why]}, 503)


async def metrics(request: Request) -> Response:
    """Return the metrics of the store, and what this process counted itself, as Prometheus reads them."""
    site = site_of(request)
    with contextlib.suppress(HoldfastError):  # a store that is away is a measure, too
        await site.opened()
    samples = [*await site.meter.samples(), *of_this_process().tally.samples()]
    open = wants_open(request.headers.get("accept", ""))
    return Response(exposition(samples, open=open), media_type=OPEN if open else PLAIN)


PROBES = [
    Route("/live", live, methods=["GET"]),
    Route("/ready", ready, methods=["GET"]),
    Route("/metrics", metrics, methods=["GET"]),
]
