"""Options of a URL as redis-py, Celery and Django write them, in the words of this store."""

from __future__ import annotations

from collections.abc import Iterable

from ...errors import ConfigError
from ..shown import shown

_SAME = {"ssl_ca_certs": "ca", "socket_timeout": "timeout"}
_CHECKS = {"none": "0", "cert_none": "0", "optional": "1", "cert_optional": "1", "required": "1", "cert_required": "1"}
"""Whether a certificate is checked; to a client, `optional` is the same as `required`."""
_CLIENT = "give a client that has it in place of a URL, Holdfast(redis.asyncio.Redis(...))"
_ELSEWHERE = {
    **dict.fromkeys(("ssl_certfile", "ssl_keyfile", "ssl_password", "ssl_check_hostname", "ssl_ca_path"), _CLIENT),
    "db": "write the number of the database behind the host, redis://host:6379/3",
    "username": "write it before the host, redis://user:password@host",
    "password": "write it before the host, redis://user:password@host",
}
_ITS_OWN = frozenset({
    "max_connections", "health_check_interval", "socket_connect_timeout", "socket_keepalive", "retry_on_timeout",
    "decode_responses", "encoding", "protocol", "client_name",
})  # fmt: skip
"""What this store decides itself for each of its connections."""


def our_options(url: str, given: Iterable[tuple[str, str]], tls: bool) -> list[tuple[str, str]]:
    """Return the options by this store's names; raise for one that has no meaning here, with what to write."""
    found = []
    for name, value in given:
        if name.startswith("ssl_") and not tls:
            raise ConfigError(f"{shown(url)!r}: {name} is for TLS, and this URL has none: write rediss://")
        if name in _ITS_OWN:
            raise ConfigError(f"{shown(url)!r}: {name} is decided by Holdfast itself: leave it out")
        if name in _ELSEWHERE:
            raise ConfigError(f"{shown(url)!r}: {name} is no option here: {_ELSEWHERE[name]}")
        if name == "ssl_cert_reqs":
            found.append(("verify", _checked(url, value)))
        else:
            found.append((_SAME.get(name, name), value))
    return found


def _checked(url: str, value: str) -> str:
    if value.lower() not in _CHECKS:
        raise ConfigError(f"{shown(url)!r}: ssl_cert_reqs is none, optional or required")
    return _CHECKS[value.lower()]
