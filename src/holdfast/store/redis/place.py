"""Where a server is and how it is used, as the URL says."""

from __future__ import annotations

import re
import ssl
from typing import Any, Literal
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import msgspec

from ...errors import ConfigError
from ..shown import ESCAPES, option, shown, written

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

    def check_files(self) -> None:
        """Raise when the file with the authority's certificate cannot be used: waiting does not mend that."""
        if self.ca is not None:
            try:
                ssl.create_default_context(cafile=self.ca)
            except OSError as error:
                raise ConfigError(f"{self}: ca={self.ca!r} cannot be used: {error.strerror or error}") from None

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
        path = f"/{quote(self.master, '')}" * bool(self.master) + f"/{self.db}" * bool(self.db)
        scheme, options = f"{'rediss' if self.tls else 'redis'}{form}", urlencode(self._options())
        return f"{scheme}://{login}{'@' * bool(login)}{self._addresses()}{path}{'?' * bool(options)}{options}"

    def _addresses(self) -> str:
        return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts)

    def _options(self) -> dict[str, Any]:
        """Return what the URL says behind its question mark: whatever is not as usual."""
        tls = self.tls or bool(self.sentinel_tls)
        loose = not self.verify or self.settings.get("ssl_cert_reqs") in ("none", ssl.CERT_NONE)
        place = msgspec.structs.replace(
            self, ca=(self.ca or self.settings.get("ssl_ca_certs")) if tls else None, verify=not (tls and loose)
        )
        usual = Place()
        found = {name: getattr(place, name) for name in _OPTIONS if getattr(place, name) != getattr(usual, name)}
        return {name: int(value) if isinstance(value, bool) else value for name, value in found.items()}

    def __repr__(self) -> str:
        return f"<Place {self}>"  # and no password

    def __str__(self) -> str:
        if self.socket is not None:
            return f"unix://{self.socket}"
        return f"{'rediss' if self.tls else 'redis'}://{self._addresses()}"


def parse(url: str) -> Place:
    """Return the place that a URL names, or say what is wrong with it."""
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
    given = {name: _option(url, name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True)}
    _refuse_lost(url, kind, tls or given.get("sentinel_tls", False), given)
    return Place(
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


def check_namespace(name: str) -> str:
    """Return the name, or raise when it cannot be that of a namespace."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,62}", name):
        raise ConfigError(f"namespace={name!r}: a letter, then letters, digits and _, up to 63")
    return name


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
        return check_namespace(value)
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
    what = option(urlsplit(url).query, name, value)
    raise ConfigError(f"{shown(url)!r}: {what} is not an option here; known are {_KNOWN}")
