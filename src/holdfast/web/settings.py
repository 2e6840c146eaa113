"""What a server is told once, when it is made."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from ..errors import ConfigError

MIB = 1024 * 1024


class WebSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the application treats its callers, whoever they are."""

    read_only: bool = False
    """Nobody changes anything through this server, whatever their role."""
    insecure: bool = False
    """Without credentials, callers from other machines are operators, too."""
    allowed_hosts: tuple[str, ...] = ()
    """Names by which browsers may reach it, beside localhost, this machine's name and addresses; `*` is any."""
    session_seconds: float = 12 * 3600.0
    """For how long a login is good."""
    max_body: int = 16 * MIB
    """The most bytes that a request may bring."""
    shown_bytes: int = 64 * 1024
    """Of a payload, result or checkpoint that has more, a part is shown; all of it can be downloaded."""
    lake: str | Path | None = None
    """The folder of a lake, whose report the dashboard shows."""
    cookie: str = "holdfast_session"
    """The name of the cookie that a login sets."""
    clock: Callable[[], float] = time.time
    """The server's own clock, for logins and throttling."""

    def __post_init__(self) -> None:
        if isinstance(self.allowed_hosts, str):
            raise ConfigError(f"allowed_hosts={self.allowed_hosts!r}: give a list of names")
        if self.session_seconds <= 0:
            raise ConfigError(f"session_seconds={self.session_seconds!r}: a number above 0")
        if self.max_body < 1024:
            raise ConfigError(f"max_body={self.max_body!r}: at least 1024 bytes")
