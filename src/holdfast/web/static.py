"""Scripts, styles and pictures of the pages, from this server alone."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from .problem import Problem
from .templates import STATIC, digest

KEPT = "public, max-age=31536000, immutable"
"""For addresses that say which content they mean (`?v=`)."""
ASKED = "no-cache"
"""For others: kept, and asked for again each time."""


async def static(request: Request) -> Response:
    """Return a static file."""
    name: str = request.path_params["name"]
    path = (STATIC / name).resolve()
    if not path.is_relative_to(STATIC.resolve()) or not path.is_file():
        raise Problem(404, "not-found", f"there is no file {name!r}")
    fresh = request.query_params.get("v") == digest(name)
    return FileResponse(path, headers={"Cache-Control": KEPT if fresh else ASKED})


STATIC_FILES = Route("/static/{name:path}", static, methods=["GET"], name="static")
