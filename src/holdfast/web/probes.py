"""Whether the server is well (`/live`, `/ready`), and its metrics."""

from __future__ import annotations

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
    raise Problem(404, "no-metrics", "this version has no metrics")


PROBES = [
    Route("/live", live, methods=["GET"]),
    Route("/ready", ready, methods=["GET"]),
    Route("/metrics", metrics, methods=["GET"]),
]
