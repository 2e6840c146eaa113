"""A store's URL as executors need it: they run in other processes and other folders, perhaps on other machines."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from pyspark.sql import SparkSession

from ..errors import ConfigError
from ..store.shown import shown
from ..store.spelling import canonical
from .session.master import is_local


def refuse_memory(url: str) -> None:
    """Raise for a store in the memory of this process, which no executor can see."""
    if scheme_of(url) == "memory":
        raise ConfigError(
            f"{shown(url)!r}: Spark works in other processes, which cannot see this one's memory; use sqlite://"
        )


def refuse_remote(url: str, spark: SparkSession) -> None:
    """Raise for a store that the executors of this session cannot reach: memory, or a file of another machine."""
    refuse_memory(url)
    master = spark.sparkContext.master
    if scheme_of(url) == "sqlite" and not is_local(master):
        raise ConfigError(
            f"{shown(url)!r} is a file of this machine, and the executors of {master!r} are on others; "
            "use redis:// or postgresql://, or a local master"
        )


def reachable(url: str) -> str:
    """Return a URL that means the same in an executor, which runs in another folder."""
    url = canonical(url)
    refuse_memory(url)
    parts = urlsplit(url)
    if parts.scheme != "sqlite" or parts.netloc or not parts.path.strip("/"):
        return url
    path = Path(unquote(parts.path.removeprefix("/"))).absolute()
    return f"sqlite:///{quote(str(path))}" + (f"?{parts.query}" if parts.query else "")


def this_machine() -> str:
    """Return the name of this machine."""
    return socket.gethostname()


def require_machine(url: str, machine: str) -> None:
    """Raise when a file is to be opened on another machine than the one that planned it."""
    if scheme_of(url) == "sqlite" and machine != this_machine():
        raise ConfigError(
            f"{shown(url)!r} is a file of {machine}, and this executor is on {this_machine()}; "
            "use redis:// or postgresql://, or a local master"
        )


def scheme_of(url: str) -> str:
    """Return the scheme that Holdfast has for a URL."""
    return canonical(url).partition("://")[0]
