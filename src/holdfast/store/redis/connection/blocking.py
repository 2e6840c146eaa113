"""A synchronous client of redis-py for the server, cluster or sentinels that an address names."""

from __future__ import annotations

from typing import Any

import redis

from .address import RedisAddress


def connect_blocking(address: RedisAddress) -> Any:
    """Return a client for the one server, the cluster, or the master that sentinels name."""
    options = _options(address)
    if address.kind == "cluster":
        nodes = [redis.cluster.ClusterNode(host, port) for host, port in address.hosts]  # type: ignore[no-untyped-call]
        return redis.cluster.RedisCluster(startup_nodes=nodes, **options)
    if address.kind == "sentinel":
        asked = _options(address.of_sentinel(*address.hosts[0]))
        sentinel = redis.sentinel.Sentinel(list(address.hosts), sentinel_kwargs=asked)  # type: ignore[no-untyped-call]
        return sentinel.master_for(address.master, db=address.db, **options)  # type: ignore[no-untyped-call]
    if address.socket is not None:
        return redis.Redis(unix_socket_path=address.socket, db=address.db, **options)
    host, port = address.hosts[0]
    return redis.Redis(host=host, port=port, db=address.db, **options)


def _options(address: RedisAddress) -> dict[str, Any]:
    """Return how to log in, and whether by TLS."""
    options: dict[str, Any] = {
        "username": address.username,
        "password": address.password,
        "socket_timeout": address.timeout,
        "protocol": 2,
    }
    if not address.tls:
        return options | {name: value for name, value in address.settings.items() if not name.startswith("ssl_")}
    return options | address.settings | {"ssl": True} | address.tls_settings()


def raw(client: Any) -> Any:
    """Return the client with its replies as the server gave them: making them nice takes longer than reading them."""
    client.response_callbacks.clear()
    return client
