"""What a reader is told, checked before anything is read."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import quote, unquote, urlsplit

import msgspec

from ..errors import ConfigError
from ..store.scan import Condition
from ..store.shown import shown
from .schema import TABLES, Table

OnGap = Literal["fail", "count"]
KNOWN = {
    "url": "the store's URL",
    "table": "events, jobs or results",
    "queue": "only this queue",
    "idPrefix": "only ids that begin so",
    "after": "events after this position, or end: those to come (stream)",
    "upto": "events up to this position",
    "partitions": "the most shares that are read at once",
    "onGap": "fail or count",
    "maxEventsPerBatch": "the most events of a micro-batch (stream)",
}
"""Every option of a reader, and what it says."""


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of one reader."""

    url: str
    table: Table = "events"
    queue: str | None = None
    id_prefix: str | None = None
    after: str | None = None
    upto: str | None = None
    partitions: int = 2
    on_gap: OnGap = "fail"
    limit: int | None = None

    def __repr__(self) -> str:
        return f"<ReadOptions {self.table} of {shown(self.url)}>"

    @property
    def which(self) -> tuple[Condition, ...]:
        """What the options choose, as conditions."""
        queue = () if self.queue is None else (Condition("queue", "=", self.queue),)
        prefix = () if self.id_prefix is None else (Condition("id", "starts", self.id_prefix),)
        return (*queue, *prefix)


def parse(given: Mapping[str, str], *, stream: bool = False) -> ReadOptions:
    """Return the options, or say which is wrong."""
    by_name = {name.lower(): name for name in KNOWN}
    unknown = [name for name in given if name.lower() not in by_name]
    if unknown:
        raise ConfigError(f"option {unknown[0]!r} is not one of this source; known are {', '.join(KNOWN)}")
    wanted = {by_name[name.lower()]: value for name, value in given.items()}
    table = _one_of("table", wanted.get("table", "events"), TABLES)
    if "url" not in wanted:
        raise ConfigError(
            "option 'url' is missing: give the store's URL, as in .option('url', 'redis://localhost'); in SQL, with "
            "CREATE TEMPORARY VIEW … USING holdfast OPTIONS (…), since Spark keeps the options of a TABLE to itself"
        )
    if stream and table != "events":
        raise ConfigError(f"option table={table!r}: only events can be streamed; read jobs and results with spark.read")
    for name in ("after", "upto"):
        if name in wanted and table != "events":
            raise ConfigError(f"option {name!r} is for the table events, and {table} has no positions")
    if stream and "upto" in wanted:
        raise ConfigError("option 'upto' is for spark.read; a stream has no end (or use trigger(availableNow=True))")
    if not stream and (wanted.get("after") == "end" or "maxEventsPerBatch" in wanted):
        raise ConfigError("options after='end' and 'maxEventsPerBatch' are for spark.readStream")
    return ReadOptions(
        url=reachable(wanted["url"]),
        table=table,
        queue=wanted.get("queue"),
        id_prefix=wanted.get("idPrefix"),
        after=wanted.get("after"),
        upto=wanted.get("upto"),
        partitions=_count(wanted, "partitions") or max(2, os.cpu_count() or 2),
        on_gap=_one_of("onGap", wanted.get("onGap", "fail"), get_args(OnGap)),
        limit=_count(wanted, "maxEventsPerBatch"),
    )


def _one_of(name: str, value: str, known: tuple[str, ...]) -> Any:
    if value.lower() not in known:
        raise ConfigError(f"option {name}={value!r} is none of {', '.join(known)}")
    return value.lower()


def _count(wanted: Mapping[str, str], name: str) -> int | None:
    value = wanted.get(name)
    if value is not None and (not value.isdigit() or int(value) < 1):
        raise ConfigError(f"option {name}={value!r}: a whole number from 1")
    return None if value is None else int(value)


def reachable(url: str) -> str:
    """Return a URL that means the same in an executor, which runs in another folder. Memory cannot be reached."""
    scheme = url.partition("://")[0]
    if scheme == "memory":
        raise ConfigError(
            f"{shown(url)!r}: Spark works in other processes, which cannot see this one's memory; use sqlite://"
        )
    if scheme != "sqlite":
        return url
    parts = urlsplit(url)
    if parts.netloc or not parts.path.strip("/"):
        return url
    path = Path(unquote(parts.path.removeprefix("/"))).absolute()
    return f"sqlite:///{quote(str(path))}" + (f"?{parts.query}" if parts.query else "")


def this_machine() -> str:
    """Return what tells this machine from another."""
    return socket.gethostname()


def require_machine(url: str, machine: str) -> None:
    """A file is read only on the machine that planned to."""
    if url.partition("://")[0] == "sqlite" and machine != this_machine():
        raise ConfigError(
            f"{shown(url)!r} is a file of {machine}, and this executor is on {this_machine()}; "
            "use redis:// or postgresql://, or a local master"
        )
