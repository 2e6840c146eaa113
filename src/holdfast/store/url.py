"""A store by its URL."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from importlib import import_module
from urllib.parse import parse_qsl, unquote, urlsplit

from ..distribution import pip_install
from ..errors import ConfigError, MissingExtra, UnknownScheme
from .contract import Store
from .shown import ESCAPES, shown
from .spelling import canonical

Factory = Callable[..., Store]

_BUILT_IN = {
    "sqlite": "holdfast.store.sqlite:SqliteStore",
    "memory": "holdfast.store.sqlite:SqliteStore",
    "postgresql": "holdfast.store.postgres:PostgresStore",
    "postgres": "holdfast.store.postgres:PostgresStore",
    **dict.fromkeys(
        [base + form for base in ("redis", "rediss", "valkey", "valkeys") for form in ("", "+cluster", "+sentinel")],
        "holdfast.store.redis:RedisStore",
    ),
}
_EXTRAS: dict[str, str] = {
    scheme: "redis" if scheme.startswith(("redis", "valkey")) else "postgres"
    for scheme in _BUILT_IN
    if scheme not in ("sqlite", "memory")
}
_DRIVERS = {"redis": "redis", "valkey": "valkey", "psycopg_pool": "postgresql", "sqlalchemy": "postgresql"}
"""Packages whose clients, pools and engines are accepted in the place of a URL, and the scheme that each stands for."""
_registered: dict[str, Factory] = {}


def register_store(scheme: str, factory: Factory) -> None:
    """URLs of this scheme open this store. Packages may use the entry point group `holdfast.stores`."""
    _registered[scheme] = factory


def open_store(url: object, **options: object) -> Store:
    """Return the store that a URL names, or that a client or pool of the caller's points to, not yet opened."""
    if not isinstance(url, str):
        return _of_object(url)(url, **options)
    scheme, mark, _ = url.partition("://")
    if not mark or not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]{0,30}", scheme):
        raise ConfigError(f"{shown(url)!r} is not a store URL; try sqlite:///jobs.db or memory://")
    try:
        urlsplit(url)
    except ValueError:  # whose words may hold a part of it
        raise ConfigError(f"{shown(url)!r} is not a store URL: its host cannot be read; {ESCAPES}") from None
    if scheme.lower() not in _registered:
        url = canonical(url)
    return _factory(url.partition("://")[0].lower(), url)(url, **options)


def same_jobs(one: Store, other: Store) -> bool:
    """True when two stores hold the same jobs, as far as their URLs tell: logins and most options do not matter."""
    if one is other:
        return True
    place = _place(one.url)
    return place is not None and place == _place(other.url)


def _place(url: str) -> tuple[str, ...] | None:
    """Return what tells one place from another, less what goes without saying; memory that has no name has none."""
    parts = urlsplit(url)
    options, path = dict(parse_qsl(parts.query)), unquote(parts.path.removeprefix("/"))
    namespace = options.get("schema") or options.get("namespace") or "holdfast"
    if parts.scheme == "memory":
        return ("memory", parts.netloc, namespace) if parts.netloc else None
    if parts.scheme == "sqlite":
        return "sqlite", os.path.abspath(path), namespace
    hosts = re.sub(r":(5432|6379)(?=,|$)", "", parts.netloc.rpartition("@")[2])
    return _EXTRAS.get(parts.scheme, parts.scheme), hosts or "localhost", "" if path == "0" else path, namespace


def _of_object(given: object) -> Factory:
    """Return the store for something that a driver made: known by the package of its class."""
    for base in type(given).__mro__:
        scheme = _DRIVERS.get(base.__module__.partition(".")[0])
        if scheme is not None:
            return _load(scheme, _BUILT_IN[scheme])
    raise ConfigError(
        f"url: {type(given).__name__} is neither a store URL nor a client or pool of {', '.join(_DRIVERS)}; "
        "try sqlite:///jobs.db or memory://"
    )


def _factory(scheme: str, url: str) -> Factory:
    if scheme in _registered:
        return _registered[scheme]
    if scheme in _BUILT_IN:
        return _load(scheme, _BUILT_IN[scheme])
    from importlib.metadata import entry_points  # only now: it takes long to import

    for entry in entry_points(group="holdfast.stores"):
        if entry.name == scheme:
            factory: Factory = entry.load()
            return factory
    known = ", ".join(sorted(name for name in {*_BUILT_IN, *_registered} if "+" not in name))
    raise UnknownScheme(f"{shown(url)!r}: there is no store for {scheme}://; known are {known}")


def _load(scheme: str, path: str) -> Factory:
    module, _, name = path.partition(":")
    try:
        factory: Factory = getattr(import_module(module), name)
    except ImportError as error:
        extra = _EXTRAS.get(scheme)
        if extra is None:
            raise
        raise MissingExtra(f"{scheme}:// needs a package that is missing: {pip_install(extra)}") from error
    return factory
