"""A client or pool that the caller has already: where it points to, and how it connects, is where and how we do.

Its connections stay its own. Ours carry many calls at once, and a subscription that never ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ....errors import ConfigError
from .address import RedisAddress

_KEPT = ("credential_provider", "client_name", "socket_keepalive", "socket_keepalive_options")
"""What connections of ours take over as it is, besides everything that begins with `ssl_`."""


def address_of(client: Any) -> RedisAddress:
    """Return the address that a client or pool of redis-py or valkey-py points to, asynchronous or not."""
    if hasattr(client, "nodes_manager"):
        nodes = client.nodes_manager
        settings = nodes.connection_kwargs
        tls = "SSL" in getattr(settings.get("connection_class"), "__name__", "")  # an asynchronous one says it so
        return _address("cluster", settings, _addresses(nodes.startup_nodes.values()), tls=tls)
    pool = getattr(client, "connection_pool", client)
    if hasattr(pool, "sentinel_manager"):
        sentinels = [each.connection_pool.connection_kwargs for each in pool.sentinel_manager.sentinels]
        hosts = tuple((str(each["host"]), int(each["port"])) for each in sentinels)
        found = _address("sentinel", pool.connection_kwargs, hosts, pool.service_name, _is_tls(pool))
        asked = pool.sentinel_manager.sentinels[0].connection_pool
        return msgspec.structs.replace(
            found,
            sentinel_username=asked.connection_kwargs.get("username"),
            sentinel_password=asked.connection_kwargs.get("password"),
            sentinel_tls=_is_tls(asked),
        )
    if not hasattr(pool, "connection_kwargs"):
        raise ConfigError(f"{type(client).__name__} is no client or pool of redis-py or valkey-py: give one, or a URL")
    settings = pool.connection_kwargs
    host = (str(settings.get("host", "localhost")), int(settings.get("port", 6379)))
    return _address("single", settings, (host,), tls=_is_tls(pool))


def _addresses(nodes: Iterable[Any]) -> tuple[tuple[str, int], ...]:
    return tuple((str(node.host), int(node.port)) for node in nodes)


def _is_tls(pool: Any) -> bool:
    return "SSL" in pool.connection_class.__name__ or bool(pool.connection_kwargs.get("ssl"))


def _address(
    kind: Any, settings: Mapping[str, Any], hosts: tuple[tuple[str, int], ...], master: str = "", tls: bool = False
) -> RedisAddress:
    kept = {name: settings[name] for name in _KEPT if settings.get(name) is not None}
    ssl = {name: value for name, value in settings.items() if name.startswith("ssl_") and value is not None}
    return RedisAddress(
        kind=kind,
        hosts=hosts,
        master=master,
        db=int(settings.get("db") or 0),
        username=settings.get("username"),
        password=settings.get("password"),
        socket=settings.get("path"),
        tls=tls or bool(settings.get("ssl")),
        settings={**kept, **ssl},
    )
