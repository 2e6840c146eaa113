"""The name under which an app's jobs are kept beside those of others: a prefix of tables or keys, or a schema."""

from __future__ import annotations

import re

from ..errors import ConfigError

RULE = "a letter or _, then letters, digits, _ and -, 63 at most"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,62}")


def check_namespace(name: str, told: str | None = None) -> str:
    """Return the name, or raise when it cannot be that of a namespace. `told` is how a message shows it."""
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise ConfigError(f"{told or f'namespace={name!r}'}: {RULE}")
    return name
