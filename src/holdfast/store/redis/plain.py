"""A plain, synchronous client for whatever the URL names."""

from __future__ import annotations

from typing import Any

import redis

from .place import Place


def connect_plainly(place: Place) -> Any:
    """Return a client for the one server, the cluster, or the master that sentinels name."""
    options = _options(place)
    if place.kind == "cluster":
        nodes = [redis.cluster.ClusterNode(host, port) for host, port in place.hosts]  # type: ignore[no-untyped-call]
        return redis.cluster.RedisCluster(startup_nodes=nodes, **options)
    if place.kind == "sentinel":
        asked = _options(place.of_sentinel(*place.hosts[0]))
        sentinel = redis.sentinel.Sentinel(list(place.hosts), sentinel_kwargs=asked)  # type: ignore[no-untyped-call]
        return sentinel.master_for(place.master, db=place.db, **options)  # type: ignore[no-untyped-call]
    if place.socket is not None:
        return redis.Redis(unix_socket_path=place.socket, db=place.db, **options)
    host, port = place.hosts[0]
    return redis.Redis(host=host, port=port, db=place.db, **options)


def _options(place: Place) -> dict[str, Any]:
    """Return how to log in, and whether by TLS."""
    options: dict[str, Any] = {
        "username": place.username,
        "password": place.password,
        "socket_timeout": place.timeout,
        "protocol": 2,
    }
    if not place.tls:
        return options | {name: value for name, value in place.settings.items() if not name.startswith("ssl_")}
    return options | place.settings | {"ssl": True} | place.tls_settings()


def raw(client: Any) -> Any:
    """Return the client with its replies as the server gave them: making them nice takes longer than reading them."""
    client.response_callbacks.clear()
    return client
