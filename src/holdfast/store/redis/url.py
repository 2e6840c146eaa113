"""A URL of this store: `redis://`, `rediss://`, `valkey://`, `valkeys://`, with `+cluster` or `+sentinel`."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from ...errors import ConfigError
from ..namespace import check_namespace
from ..shown import ESCAPES, option, shown, written
from .client_options import our_options
from .connection.address import Kind, RedisAddress

_KINDS: dict[str, Kind] = {"": "single", "cluster": "cluster", "sentinel": "sentinel"}
_FORMS = {
    "namespace": "NAME", "history": "EVENTS", "timeout": "SECONDS", "retry_for": "SECONDS", "wait_aof": "0|1",
    "wait_replicas": "N", "ca": "FILE", "verify": "0|1", "busy_poll": "0|1", "sentinel_username": "NAME",
    "sentinel_password": "SECRET", "sentinel_tls": "0|1",
}  # fmt: skip
"""Every option, and what its value looks like."""
SHORTEST_TIMEOUT = 0.1


def parse_url(url: str) -> RedisAddress:
    """Return the address that a URL names, or say what is wrong with it."""
    parts = urlsplit(url)
    base, _, form = parts.scheme.partition("+")
    if form not in _KINDS:
        raise ConfigError(f"{shown(url)!r}: {form!r} is not a form; try redis+cluster:// or redis+sentinel://")
    if written(url) is None:
        raise ConfigError(f"{shown(url)!r}: host and port, then /database and ?options, were expected; {ESCAPES}")
    kind, tls = _KINDS[form], base in ("rediss", "valkeys")
    login, _, hosts = parts.netloc.rpartition("@")
    username, _, password = login.partition(":")
    path = parts.path.strip("/")
    pairs = our_options(url, parse_qsl(parts.query, keep_blank_values=True), tls)
    given = {name: _option(url, name, value) for name, value in pairs}
    _refuse_lost(url, kind, tls or given.get("sentinel_tls", False), given)
    return RedisAddress(
        kind=kind,
        hosts=_hosts(url, hosts.split(","), kind),
        username=unquote(username) or None,
        password=unquote(password) or None,
        tls=tls,
        **_path(url, kind, path),
        **given,
    )


def _refuse_lost(url: str, kind: Kind, tls: bool, given: dict[str, Any]) -> None:
    """Raise when an option is given that would do nothing."""
    for name in given:
        if name.startswith("sentinel_") and kind != "sentinel":
            raise ConfigError(f"{shown(url)!r}: {name} is for redis+sentinel:// alone")
        if name in ("ca", "verify") and not tls:
            raise ConfigError(f"{shown(url)!r}: {name} is for TLS, and this URL has none: write rediss://")


def _hosts(url: str, texts: list[str], kind: Kind) -> tuple[tuple[str, int], ...]:
    if len(texts) > 1 and kind == "single":
        raise ConfigError(f"{shown(url)!r}: several servers are redis+cluster:// or redis+sentinel://; name one")
    if len(texts) > 1 and "" in texts:
        raise ConfigError(f"{shown(url)!r}: there is no host before or after a comma")
    return tuple(_host(url, text, kind) for text in texts)


def _host(url: str, text: str, kind: Kind) -> tuple[str, int]:
    found = re.fullmatch(r"(\[[^]]*\]|[^:]*)(?::([0-9]+))?", text)
    if found is None:
        raise ConfigError(f"{shown(url)!r}: no host and port; {ESCAPES}")
    port = int(found[2] or (26379 if kind == "sentinel" else 6379))
    if not 0 < port < 65536:
        raise ConfigError(f"{shown(url)!r}: {port} is not a port; those go from 1 to 65535")
    return found[1].strip("[]") or "localhost", port


def _path(url: str, kind: Kind, path: str) -> dict[str, Any]:
    if kind == "sentinel":
        master, _, db = path.partition("/")
        if not master:
            raise ConfigError(f"{shown(url)!r}: name the master, as in redis+sentinel://host:26379/mymaster")
        return {"master": unquote(master), "db": _db(url, db)}
    if kind == "cluster" and path not in ("", "0"):
        raise ConfigError(f"{shown(url)!r}: a cluster has only the database 0")
    return {"db": _db(url, path)}


def _db(url: str, text: str) -> int:
    if not re.fullmatch("[0-9]{0,9}", text):
        raise ConfigError(f"{shown(url)!r}: what stands behind the / is not the number of a database")
    return int(text or 0)


def _option(url: str, name: str, value: str) -> Any:
    if name == "namespace":
        return check_namespace(value, f"{shown(url)!r}: {option(urlsplit(url).query, name, value)}")
    if name in ("timeout", "retry_for") and re.fullmatch(r"[0-9]+(\.[0-9]+)?", value):
        if name == "timeout" and float(value) < SHORTEST_TIMEOUT:
            raise ConfigError(f"{shown(url)!r}: timeout={value}: at least {SHORTEST_TIMEOUT:g} s")
        return float(value)
    if name in ("history", "wait_replicas") and re.fullmatch("[0-9]+", value):
        return int(value)
    if name in ("wait_aof", "verify") and value in ("0", "1"):
        return value == "1" if name == "verify" else int(value)
    if name in ("sentinel_tls", "busy_poll") and value in ("0", "1"):
        return value == "1"
    if name in ("ca", "sentinel_username", "sentinel_password") and value:
        return value
    what = option(urlsplit(url).query, name, value)
    if name in _FORMS:
        raise ConfigError(f"{shown(url)!r}: {what} is not {name}={_FORMS[name]}")
    known = ", ".join(f"{each}={form}" for each, form in _FORMS.items())
    raise ConfigError(f"{shown(url)!r}: {what} is not an option here; known are {known}")
