"""Whether the server is well (`/live`, `/ready`), and its metrics."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..errors import HoldfastError
from .problem import Problem
from .site import site_of


async def live(request: Request) -> Response:
    """Answer: the loop moves."""
    return JSONResponse({"live": True})


async def ready(request: Request) -> Response:
    """Answer whether the store can be reached."""
    try:
        app = await site_of(request).opened()
        await app.store.now_ms()
    except HoldfastError as error:
        return JSONResponse({"ready": False, "reasons": [type(error).__name__]}, 503)
    return JSONResponse({"ready": True, "reasons": []})


async def metrics(request: Request) -> Response:
    """Return the metrics of the store, as Prometheus reads them."""
    site = site_of(request)
    if find_spec("holdfast.telemetry.metrics") is None:
        raise Problem(404, "no-metrics", "this version has no metrics")
    shown = import_module("holdfast.telemetry.metrics.exposition")
    if site.meter is None:
        store = (await site.opened()).store
        site.meter = import_module("holdfast.telemetry.metrics.store").StoreMeter(store)
    open = shown.wants_open(request.headers.get("accept", ""))
    text = shown.exposition(await site.meter.samples(), open=open)
    return Response(text, media_type=shown.OPEN if open else shown.PLAIN)


PROBES = [
    Route("/live", live, methods=["GET"]),
    Route("/ready", ready, methods=["GET"]),
    Route("/metrics", metrics, methods=["GET"]),
]
