"""A plain, synchronous client for whatever the URL names."""

from __future__ import annotations

from typing import Any

import redis

from .place import Place


def connect_plainly(place: Place) -> Any:
    """Return a client for the one server, the cluster, or the master that sentinels name."""
    options: dict[str, Any] = {
        "username": place.username,
        "password": place.password,
        "socket_timeout": place.timeout,
        "protocol": 2,
        **place.settings,
    }
    if place.tls:
        verify: dict[str, Any] = {} if place.verify else {"ssl_cert_reqs": "none", "ssl_check_hostname": False}
        options |= {"ssl": True, "ssl_ca_certs": place.ca, **verify}
    if place.kind == "cluster":
        nodes = [redis.cluster.ClusterNode(host, port) for host, port in place.hosts]  # type: ignore[no-untyped-call]
        return redis.cluster.RedisCluster(startup_nodes=nodes, **options)
    if place.kind == "sentinel":
        sentinel = redis.sentinel.Sentinel(list(place.hosts), socket_timeout=place.timeout)  # type: ignore[no-untyped-call]
        return sentinel.master_for(place.master, db=place.db, **options)  # type: ignore[no-untyped-call]
    if place.socket is not None:
        return redis.Redis(unix_socket_path=place.socket, db=place.db, **options)
    host, port = place.hosts[0]
    return redis.Redis(host=host, port=port, db=place.db, **options)


def raw(client: Any) -> Any:
    """Return the client with its replies as the server gave them: making them nice takes longer than reading them."""
    client.response_callbacks.clear()
    return client
