"""Where a server is and how it is used, as the URL says."""

from __future__ import annotations

import re
import ssl
from typing import Any, Literal
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import msgspec

from ...errors import ConfigError
from ..url import shown

Kind = Literal["single", "cluster", "sentinel"]
_KINDS: dict[str, Kind] = {"": "single", "cluster": "cluster", "sentinel": "sentinel"}
_KNOWN = (
    "namespace=NAME, history=EVENTS, timeout=SECONDS, retry_for=SECONDS, wait_aof=1, wait_replicas=N, ca=FILE, "
    "verify=0, sentinel_username=NAME, sentinel_password=SECRET, sentinel_tls=0"
)
SHORTEST_TIMEOUT = 0.1
_OPTIONS = (
    "namespace", "history", "timeout", "retry_for", "wait_aof", "wait_replicas", "ca", "verify", "sentinel_username",
    "sentinel_password", "sentinel_tls",
)  # fmt: skip


class Place(msgspec.Struct, frozen=True, kw_only=True):
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
    history: int = 1_000_000
    """How many events the log of a queue keeps."""
    timeout: float = 20.0
    """How long a reply may take."""
    retry_for: float = 5.0
    """How long a call is repeated while the server is away, busy or loading."""
    wait_aof: int = 0
    wait_replicas: int = 0
    socket: str | None = None
    """The path of a Unix socket, in the place of host and port."""
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

    def of_sentinel(self, host: str, port: int) -> Place:
        """Return one of the sentinels as a server that can be asked."""
        return Place(
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
        """The URL of the place; certificates and credentials that only a client of the caller's has are not in it."""
        if self.socket is not None:
            return str(self)
        form = "" if self.kind == "single" else f"+{self.kind}"
        login = quote(self.username or "", "") + (f":{quote(self.password, '')}" if self.password else "")
        hosts = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts)
        path = f"/{quote(self.master, '')}" * bool(self.master) + f"/{self.db}" * bool(self.db)
        scheme, options = f"{'rediss' if self.tls else 'redis'}{form}", urlencode(self._options())
        return f"{scheme}://{login}{'@' * bool(login)}{hosts}{path}{'?' * bool(options)}{options}"

    def _options(self) -> dict[str, Any]:
        """Return what the URL says behind its question mark: whatever is not as usual."""
        place = msgspec.structs.replace(
            self, ca=self.ca or self.settings.get("ssl_ca_certs"),
            verify=self.verify and self.settings.get("ssl_cert_reqs") not in ("none", ssl.CERT_NONE),
        )  # fmt: skip
        usual = Place()
        found = {name: getattr(place, name) for name in _OPTIONS if getattr(place, name) != getattr(usual, name)}
        return {name: int(value) if isinstance(value, bool) else value for name, value in found.items()}

    def __str__(self) -> str:
        if self.socket is not None:
            return f"unix://{self.socket}"
        hosts = ",".join(f"{host}:{port}" for host, port in self.hosts)
        return f"{'rediss' if self.tls else 'redis'}://{hosts}"


def parse(url: str) -> Place:
    """Return the place that a URL names, or say what is wrong with it."""
    parts = urlsplit(url)
    base, _, form = parts.scheme.partition("+")
    if form not in _KINDS:
        raise ConfigError(f"{shown(url)!r}: {form!r} is not a form; try redis+cluster:// or redis+sentinel://")
    kind = _KINDS[form]
    login, _, hosts = parts.netloc.rpartition("@")
    username, _, password = login.partition(":")
    path = parts.path.strip("/")
    given = {name: _option(url, name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True)}
    if kind != "sentinel" and (lost := [name for name in given if name.startswith("sentinel_")]):
        raise ConfigError(f"{shown(url)!r}: {lost[0]} is for redis+sentinel:// alone")
    return Place(
        kind=kind,
        hosts=tuple(_host(url, host, kind) for host in hosts.split(",")),
        username=unquote(username) or None,
        password=unquote(password) or None,
        tls=base in ("rediss", "valkeys"),
        **_path(url, kind, path),
        **given,
    )


def _host(url: str, text: str, kind: Kind) -> tuple[str, int]:
    found = re.fullmatch(r"(\[[^]]*\]|[^:]*)(?::(\d+))?", text)
    if found is None:
        raise ConfigError(f"{shown(url)!r}: no host and port; in a password, / ? # @ are written %2F %3F %23 %40")
    return found[1].strip("[]") or "localhost", int(found[2] or (26379 if kind == "sentinel" else 6379))


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
    if text and not text.isdigit():
        raise ConfigError(f"{shown(url)!r}: {text!r} is not the number of a database")
    return int(text or 0)


def _option(url: str, name: str, value: str) -> Any:
    if name == "namespace" and re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,62}", value):
        return value
    if name in ("timeout", "retry_for") and re.fullmatch(r"[0-9]+(\.[0-9]+)?", value):
        if name == "timeout" and float(value) < SHORTEST_TIMEOUT:
            raise ConfigError(f"{shown(url)!r}: timeout={value}: at least {SHORTEST_TIMEOUT:g} s")
        return float(value)
    if name in ("history", "wait_replicas") and re.fullmatch("[0-9]+", value):
        return int(value)
    if name in ("wait_aof", "verify") and value in ("0", "1"):
        return value == "1" if name == "verify" else int(value)
    if name == "sentinel_tls" and value in ("0", "1"):
        return value == "1"
    if name in ("ca", "sentinel_username", "sentinel_password") and value:
        return value
    raise ConfigError(f"{shown(url)!r}: {name}={value!r} is not an option here; known are {_KNOWN}")
