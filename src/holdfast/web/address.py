"""Addresses of this application, wherever it is mounted."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.requests import HTTPConnection
from starlette.types import Scope


def route_path(scope: Scope) -> str:
    """Return the path below the place where the application is mounted."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return path[len(root) :] or "/" if root and path.startswith(root) else path


def root_of(connection: HTTPConnection) -> str:
    """Return the path at which the application is mounted."""
    return str(connection.scope.get("root_path", "")).rstrip("/")


def href(root: str, path: str, **query: object) -> str:
    """Return an address below a root, with what is not `None` as its query."""
    given = {name: value for name, value in query.items() if value is not None}
    return f"{root}{path}" + (f"?{urlencode(given, doseq=True)}" if given else "")
