"""By which names the server may be reached: a page of somebody else's that renamed itself to us is refused."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable

LOOPBACK = ("localhost", "ip6-localhost", "ip6-loopback")


class Hosts:
    """Knows the names of this server. An address in numbers is no name, and cannot be pointed elsewhere."""

    def __init__(self, allowed: Iterable[str]) -> None:
        given = {name.lower().rstrip(".") for name in allowed}
        self._any = "*" in given
        self._names = {*LOOPBACK, socket.gethostname().lower(), *given}

    def knows(self, host: str) -> bool:
        """Return whether a Host header names this server."""
        if self._any:
            return True
        name = _without_port(host).lower().rstrip(".")
        if not name or name in self._names or is_address(name):
            return bool(name)
        return any(each.startswith("*.") and name.endswith(each[1:]) for each in self._names)


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def is_address(name: str) -> bool:
    """Return whether a host is an address in numbers."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(name: str) -> bool:
    """Return whether an address or name can be reached from this machine alone."""
    if name.lower() in LOOPBACK:
        return True
    try:
        return ipaddress.ip_address(name.partition("%")[0]).is_loopback
    except ValueError:
        return False
