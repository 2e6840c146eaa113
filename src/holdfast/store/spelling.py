"""Store URLs as other tools write them: what means the same is taken, and the rest is refused with the right form."""

from __future__ import annotations

import re

from ..errors import ConfigError
from .shown import shown

_SAME = re.compile(
    r"(?P<postgresql>postgres(ql)?(\+[a-z0-9_]+)?|pgsql|postgis)|(?P<sqlite>sqlite3|sqlite\+[a-z0-9_]+)", re.IGNORECASE
)
"""Schemes of SQLAlchemy (`postgresql+asyncpg`), Django (`postgis`) and others, by the scheme that they mean here."""
_CELERY = re.compile(r"(db|sqla)\+(?=[a-z])", re.IGNORECASE)
_ELSEWHERE = {
    "sentinel": "write redis+sentinel://host:26379,other:26379/mymaster",
    "redis-sentinel": "write redis+sentinel://host:26379,other:26379/mymaster",
    "rediscluster": "write redis+cluster://host:6379",
    "redis-cluster": "write redis+cluster://host:6379",
    "unix": "for a Unix socket give a client in place of a URL: Holdfast(redis.asyncio.Redis(unix_socket_path=...))",
    "redis+socket": "for a Unix socket give a client in place of a URL: "
    "Holdfast(redis.asyncio.Redis(unix_socket_path=...))",
    "file": "for a SQLite file write sqlite:///relative/path.db or sqlite:////absolute/path.db",
}


def canonical(url: str) -> str:
    """Return a URL with the scheme that Holdfast has for it; raise for one that is right only elsewhere."""
    scheme, mark, rest = url.partition("://")
    if not mark:
        return url
    if found := _SAME.fullmatch(scheme):
        return f"{found.lastgroup}://{rest}"
    if prefix := _CELERY.match(scheme):
        raise ConfigError(f"{shown(url)!r}: {prefix[0]} is Celery's; write {scheme.removeprefix(prefix[0])}://")
    if hint := _ELSEWHERE.get(scheme.lower()):
        raise ConfigError(f"{shown(url)!r}: there is no store for {scheme}://; {hint}")
    return url
