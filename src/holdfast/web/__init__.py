"""The HTTP API and the dashboard, one ASGI application: `pip install 'holdfast[web]'`."""

from __future__ import annotations

from importlib.util import find_spec

from ..errors import MissingExtra

for _package in ("starlette", "jinja2"):
    if find_spec(_package) is None:
        raise MissingExtra(f"holdfast.web needs {_package}, which is missing: pip install 'holdfast[web]'")

from .application import create_app  # noqa: E402
from .auth.identity import AuthHook, Identity, Role  # noqa: E402
from .auth.passwords import hash_password  # noqa: E402
from .redact import Redaction  # noqa: E402
from .settings import WebSettings  # noqa: E402

__all__ = ["AuthHook", "Identity", "Redaction", "Role", "WebSettings", "create_app", "hash_password"]
