"""The HTTP API, below `/api/v1`."""

from __future__ import annotations

from starlette.routing import BaseRoute


def routes() -> list[BaseRoute]:
    """Return the routes of the API."""
    return []
