"""The HTTP API and the dashboard, one ASGI application: `pip install 'holdfast-queue[web]'`."""

from __future__ import annotations

from ..distribution import require

require("holdfast.web", "starlette", "jinja2", extra="web")

from .application import create_app  # noqa: E402
from .auth.identity import AuthHook, Identity, Role  # noqa: E402
from .auth.passwords import hash_password  # noqa: E402
from .redact import Redaction  # noqa: E402
from .settings import WebSettings  # noqa: E402

__all__ = ["AuthHook", "Identity", "Redaction", "Role", "WebSettings", "create_app", "hash_password"]
