"""JSON as it leaves the server."""

from __future__ import annotations

import msgspec

from ..core.visible import visible_json


def json_bytes(value: object) -> bytes:
    """Return JSON that steers no terminal on which somebody looks at it."""
    data = msgspec.json.encode(value)
    return data if data.isascii() else visible_json(data.decode()).encode()
