"""Which master Spark runs on. A standalone one is called first: Spark itself takes over a minute to give up on it."""

from __future__ import annotations

import os
import re
import socket

from ...errors import ConfigError

PATIENCE = 10.0
"""Seconds that all hosts of a master together have to accept a connection."""
_SCHEME = "spark://"
_LOCAL = re.compile(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?")
_HOST = re.compile(r"(\[[^\]]+\]|[^:\[\]]+):(\d{1,5})")


def is_local(master: str) -> bool:
    """Return whether everything runs on this machine."""
    return master == "local" or master.startswith(("local[", "local-cluster["))


def local_cores(master: str) -> int | None:
    """Return how many tasks run at once where Spark runs in this process; `None` on a cluster."""
    found = _LOCAL.fullmatch(master)
    if found is None:
        return None
    return (os.cpu_count() or 1) if found[1] == "*" else int(found[1] or 1)


def refuse_unreachable(master: str) -> None:
    """Raise when no host of a `spark://` master accepts a connection. One is enough: Spark finds the others."""
    if not master.startswith(_SCHEME):
        return
    hosts = [_host(master, text) for text in master.removeprefix(_SCHEME).split(",")]
    refusals = []
    for host, port in hosts:
        if (refusal := _refusal(host, port, PATIENCE / len(hosts))) is None:
            return
        refusals.append(f"{host}:{port}: {refusal}")
    raise ConfigError(
        f"Spark's master {master!r} cannot be reached ({'; '.join(refusals)}): "
        "check its name and port, and that it runs"
    )


def _host(master: str, text: str) -> tuple[str, int]:
    found = _HOST.fullmatch(text)
    if found is None:
        raise ConfigError(f"master={master!r}: name a host and a port, as in spark://head:7077")
    return found[1].strip("[]"), int(found[2])


def _refusal(host: str, port: int, patience: float) -> str | None:
    """Return why the host accepts no connection, `None` when it does."""
    try:
        socket.create_connection((host, port), patience).close()
    except (OSError, OverflowError, UnicodeError) as error:  # no such port, or a name that none can be
        return getattr(error, "strerror", None) or str(error)
    return None


def refuse_connect(spark: object) -> None:
    """Raise for a session of Spark Connect, which has no way to send an app's code or to run workers."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise ConfigError(
            "write(), map() and fleet() need a session that runs its own driver, and this one is of Spark Connect; "
            "use holdfast.spark.session(), or a session that was made without remote()"
        )
