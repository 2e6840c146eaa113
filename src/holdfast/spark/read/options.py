"""The options of a reader, checked before anything is read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal, TypeVar, get_args

import msgspec

from ...errors import ConfigError
from ...store.scan import Condition
from ...store.shown import shown
from ..store_url import reachable
from .tables import TABLES, Table

Word = TypeVar("Word", bound=str)
OnGap = Literal["fail", "count"]
ON_GAP: tuple[OnGap, ...] = get_args(OnGap)
KNOWN = {
    "url": "the store's URL",
    "table": "events, jobs or results",
    "queue": "only this queue",
    "idPrefix": "only ids that begin so",
    "after": "events after this position, or end: those to come (stream)",
    "upto": "events up to this position",
    "partitions": "the most parts that are read at once",
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
    """Return the options as a struct, or raise and name the one that is wrong."""
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
        on_gap=_one_of("onGap", wanted.get("onGap", "fail"), ON_GAP),
        limit=_count(wanted, "maxEventsPerBatch"),
    )


def _one_of(name: str, value: str, known: tuple[Word, ...]) -> Word:
    found = next((each for each in known if each == value.lower()), None)
    if found is None:
        raise ConfigError(f"option {name}={value!r} is none of {', '.join(known)}")
    return found


def _count(wanted: Mapping[str, str], name: str) -> int | None:
    value = wanted.get(name)
    if value is not None and (not value.isdigit() or int(value) < 1):
        raise ConfigError(f"option {name}={value!r}: a whole number from 1")
    return None if value is None else int(value)
