"""Where a server is and how it is used; `url.py` reads it from a URL."""

from __future__ import annotations

import ssl
from typing import Any, Literal
from urllib.parse import quote, urlencode

import msgspec

from ....core.bound import KEPT_EVENTS
from ....errors import ConfigError

Kind = Literal["single", "cluster", "sentinel"]
OPTIONS = (
    "namespace", "history", "timeout", "retry_for", "wait_aof", "wait_replicas", "ca", "verify", "sentinel_username",
    "sentinel_password", "sentinel_tls", "busy_poll",
)  # fmt: skip


class RedisAddress(msgspec.Struct, frozen=True, kw_only=True):
    """One server, or the seeds of a cluster, or the sentinels of a server."""

    kind: Kind = "single"
    hosts: tuple[tuple[str, int], ...] = (("localhost", 6379),)
    master: str = ""
    """What sentinels call the server."""
    db: int = 0
    username: str | None = None
    password: str | None = None
    tls: bool = False
    ca: str | None = None
    verify: bool = True
    namespace: str = "holdfast"
    history: int = KEPT_EVENTS
    """How many events the log of a queue keeps."""
    timeout: float = 20.0
    """How long a reply may take."""
    retry_for: float = 5.0
    """How long a call is repeated while the server is away, busy or loading."""
    busy_poll: bool = True
    """Whether a caller that has nothing else to do polls for the reply to an enqueue, before it sleeps."""
    wait_aof: int = 0
    wait_replicas: int = 0
    socket: str | None = None
    """The path of a Unix socket, instead of host and port."""
    settings: dict[str, Any] = {}
    """What a client that the caller brought gives to its connections."""
    sentinel_username: str | None = None
    sentinel_password: str | None = None
    sentinel_tls: bool | None = None
    """Whether the sentinels are asked by TLS; as the server itself, unless it says so."""

    def tls_settings(self) -> dict[str, Any]:
        """Return how a certificate is checked, as redis-py spells it."""
        found: dict[str, Any] = {} if self.ca is None else {"ssl_ca_certs": self.ca}
        return found if self.verify else {**found, "ssl_cert_reqs": "none", "ssl_check_hostname": False}

    def check_files(self) -> None:
        """Raise when the file with the authority's certificate cannot be used: waiting does not mend that."""
        if self.ca is not None:
            try:
                ssl.create_default_context(cafile=self.ca)
            except OSError as error:
                raise ConfigError(f"{self}: ca={self.ca!r} cannot be used: {error.strerror or error}") from None

    def of_sentinel(self, host: str, port: int) -> RedisAddress:
        """Return one of the sentinels as a server that can be asked."""
        return RedisAddress(
            hosts=((host, port),),
            username=self.sentinel_username,
            password=self.sentinel_password,
            tls=self.tls if self.sentinel_tls is None else self.sentinel_tls,
            ca=self.ca,
            verify=self.verify,
            timeout=self.timeout,
            settings={name: value for name, value in self.settings.items() if name.startswith("ssl_")},
        )

    @property
    def url(self) -> str:
        """The URL of the address; certificates and credentials that only a client of the caller's has are not in it."""
        if self.socket is not None:
            return str(self)
        form = "" if self.kind == "single" else f"+{self.kind}"
        login = quote(self.username or "", "") + (f":{quote(self.password, '')}" if self.password else "")
        path = f"/{quote(self.master, '')}" * bool(self.master) + f"/{self.db}" * bool(self.db)
        scheme, options = f"{'rediss' if self.tls else 'redis'}{form}", urlencode(self._options())
        return f"{scheme}://{login}{'@' * bool(login)}{self._addresses()}{path}{'?' * bool(options)}{options}"

    def _addresses(self) -> str:
        return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts)

    def _options(self) -> dict[str, Any]:
        """Return what the URL says behind its question mark: whatever is not as usual."""
        tls = self.tls or bool(self.sentinel_tls)
        loose = not self.verify or self.settings.get("ssl_cert_reqs") in ("none", ssl.CERT_NONE)
        address = msgspec.structs.replace(
            self, ca=(self.ca or self.settings.get("ssl_ca_certs")) if tls else None, verify=not (tls and loose)
        )
        usual = RedisAddress()
        found = {name: getattr(address, name) for name in OPTIONS if getattr(address, name) != getattr(usual, name)}
        return {name: int(value) if isinstance(value, bool) else value for name, value in found.items()}

    def __repr__(self) -> str:
        return f"<RedisAddress {self}>"  # and no password

    def __str__(self) -> str:
        if self.socket is not None:
            return f"unix://{self.socket}"
        return f"{'rediss' if self.tls else 'redis'}://{self._addresses()}"
