"""How a value inside a payload is named: `order.items[2].when`, `order["odd key"]`."""

from __future__ import annotations

import json
from typing import Any


def member(path: str, name: Any) -> str:
    """The path of a key, field or element; at an empty root it is the name alone."""
    if isinstance(name, str) and name.isidentifier():
        return f"{path}.{name}" if path else str(name)
    return f"{path}[{json.dumps(name) if isinstance(name, str) else repr(name)}]"


def split(message: str, root: str = "payload") -> tuple[str, str]:
    """The path and the reason in what msgspec says, "Expected `int`, got `str` - at `$.age`"."""
    reason, found, where = message.partition(" - at `")
    suffix = where.rstrip("`")
    # msgspec says "key in $.tags" for a key of an object
    return (root + suffix[suffix.index("$") + 1 :] if found and "$" in suffix else root), reason
