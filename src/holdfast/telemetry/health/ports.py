"""The ports that a worker was told to open, and what is served at each."""

from __future__ import annotations

import msgspec

from ...errors import ConfigError
from ...store.contract import Store
from ..metrics.store import TwinMeter
from .health import Health
from .http import Route
from .port import LOOPBACK, Address, Port
from .routes import METRICS, STORE_METRICS, Samples, health_routes, metrics_route

Where = int | str
"""A port, or the path of a Unix socket."""


class PortOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where metrics and health are served; one port has both when the other is not given, or is the same."""

    metrics_port: Where | None = None
    health_port: Where | None = None
    host: str = LOOPBACK

    def __bool__(self) -> bool:
        return self.metrics_port is not None or self.health_port is not None

    def addresses(self) -> list[tuple[Address, bool, bool]]:
        """Return each address, whether it has metrics, and whether it has health."""
        metrics, health = self.metrics_port, self.health_port
        if metrics is None or health is None or metrics == health:
            option, port = ("health_port", health) if metrics is None else ("metrics_port", metrics)
            return [] if port is None else [(self._address(option, port), True, True)]
        return [
            (self._address("metrics_port", metrics), True, False),
            (self._address("health_port", health), False, True),
        ]

    def _address(self, option: str, where: Where) -> Address:
        return Address(option, where, self.host) if isinstance(where, int) else Address(option, 0, self.host, where)


def port_options(metrics_port: Where | None, health_port: Where | None, host: str) -> PortOptions:
    """Return the options, checked."""
    check_port(metrics_port, "metrics_port")
    check_port(health_port, "health_port")
    if not isinstance(host, str) or not host:
        raise ConfigError(f"metrics_host={host!r}: the address or name of a host, such as {LOOPBACK} or 0.0.0.0")
    return PortOptions(metrics_port=metrics_port, health_port=health_port, host=host)


def check_port(value: object, option: str) -> None:
    """Raise when an option is no port, and no path of a socket."""
    is_port = type(value) is int and 0 <= value <= 65535
    is_path = isinstance(value, str) and value.startswith("/")
    if value is not None and not is_port and not is_path:
        raise ConfigError(
            f"{option}={value!r}: a port from 1 to 65535, 0 for one that is free, or the path of a Unix socket"
        )


def port_of(options: PortOptions, health: Health, samples: Samples, store: Store) -> Port:
    """Return the port of a worker, or of several, not open yet: its store is measured through a twin of its own."""
    twin = TwinMeter(store)
    metrics: dict[str, Route] = {METRICS: metrics_route(samples), STORE_METRICS: metrics_route(twin.samples)}
    probes = health_routes(health)
    served = [
        (address, {**(metrics if has_metrics else {}), **(probes if has_health else {})})
        for address, has_metrics, has_health in options.addresses()
    ]
    return Port(served, [twin.close])
