"""The options of a reader, checked before anything is read."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TypeVar

import msgspec
from pyspark.sql.types import StructType

from ...errors import ConfigError
from ...store.scan import Condition, Op, ScanPlan
from ...store.shown import shown
from ..store_url import reachable
from .arrow import chosen_fields
from .tables import SCHEMAS, TABLES, Table
from .where import MOST_WHOLE, conditions, instant_ms

Word = TypeVar("Word", bound=str)
SWITCH = ("true", "false")
KNOWN = {
    "url": "the store's URL",
    "table": "events, jobs or results",
    "queue": "only this queue",
    "queues": "only these queues, with commas between them",
    "columns": "only these columns, with commas between them",
    "where": "only what meets these conditions, which the store applies",
    "since": "only what happened, was enqueued or was finished at this instant or later",
    "until": "only what happened, was enqueued or was finished before this instant",
    "runs": "only these runs: 7, 100-200, 100- or -200",
    "idPrefix": "only ids that begin so",
    "after": "events after this position, or end: those to come (stream)",
    "asOf": "events up to this position: the log as it was there",
    "partitions": "the most parts that are read at once",
    "failOnDataLoss": "true or false: whether events that were trimmed unread are an error, or a row that counts them",
    "maxEventsPerTrigger": "the most events of a micro-batch (stream)",
}
"""Every option of a reader, and what it says."""
TIMES: dict[Table, str] = {"events": "at_ms", "jobs": "enqueued_at_ms", "results": "finished_at_ms"}
"""The instant that `since` and `until` speak of."""
_BOUNDS: tuple[tuple[str, Op], ...] = (("since", ">="), ("until", "<"))


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of one reader."""

    url: str
    table: Table = "events"
    which: tuple[Condition, ...] = ()
    """What the options choose."""
    columns: tuple[str, ...] | None = None
    """The columns of the frame, in the table's order; `None`: all of them."""
    after: str | None = None
    upto: str | None = None
    partitions: int = 2
    fail_on_data_loss: bool = True
    limit: int | None = None

    def __repr__(self) -> str:
        return f"<ReadOptions {self.table} of {shown(self.url)}>"

    @property
    def queues(self) -> tuple[str, ...] | None:
        """The queues that are read; `None`: all."""
        return ScanPlan(table="events", columns=(), which=self.which).only("queue")


def parse(given: Mapping[str, str], *, stream: bool = False) -> ReadOptions:
    """Return the options as a struct, or raise and name the one that is wrong."""
    wanted = _by_name(given)
    table = _one_of("table", wanted.get("table", "events"), TABLES)
    if "url" not in wanted:
        raise ConfigError(
            "option 'url' is missing: give the store's URL, as in .option('url', 'redis://localhost'); in SQL, with "
            "CREATE TEMPORARY VIEW … USING holdfast OPTIONS (…), since Spark keeps the options of a TABLE to itself"
        )
    if stream and table != "events":
        raise ConfigError(f"option table={table!r}: only events can be streamed; read jobs and results with spark.read")
    for name in ("after", "asOf"):
        if name in wanted and table != "events":
            raise ConfigError(f"option {name!r} is for the table events, and {table} has no positions")
    if stream and "asOf" in wanted:
        raise ConfigError("option 'asOf' is for spark.read; a stream has no end (or use trigger(availableNow=True))")
    if not stream and (wanted.get("after") == "end" or "maxEventsPerTrigger" in wanted):
        raise ConfigError("options after='end' and 'maxEventsPerTrigger' are for spark.readStream")
    return ReadOptions(
        url=reachable(wanted["url"]),
        table=table,
        which=_which(wanted, table),
        columns=_columns(wanted.get("columns"), table),
        after=wanted.get("after"),
        upto=wanted.get("asOf"),
        partitions=_count(wanted, "partitions") or max(2, os.cpu_count() or 2),
        fail_on_data_loss=_one_of("failOnDataLoss", wanted.get("failOnDataLoss", "true"), SWITCH) == "true",
        limit=_count(wanted, "maxEventsPerTrigger"),
    )


def frame_schema(given: Mapping[str, str]) -> StructType:
    """Return the columns that a frame with these options has; what else is wrong with them, its reader tells."""
    named = {_plain(name): value for name, value in given.items()}
    table = _one_of("table", named.get("table", "events"), TABLES)
    return chosen_fields(table, _columns(named.get("columns"), table))


def _by_name(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options by our own spelling: Spark's are no matter of case, and Python's have underscores."""
    by_name = {name.lower(): name for name in KNOWN}
    unknown = [name for name in given if _plain(name) not in by_name]
    if unknown:
        raise ConfigError(f"option {unknown[0]!r} is not one of this source; known are {', '.join(KNOWN)}")
    return {by_name[_plain(name)]: value for name, value in given.items()}


def _plain(name: str) -> str:
    return name.lower().replace("_", "")


def _which(wanted: Mapping[str, str], table: Table) -> tuple[Condition, ...]:
    """Return what the options choose, as conditions."""
    found = [Condition("queue", "=", wanted["queue"])] if "queue" in wanted else []
    if "queues" in wanted:
        found.append(Condition("queue", "in", _names(wanted["queues"], "queues")))
    if "idPrefix" in wanted:
        found.append(Condition("id", "starts", wanted["idPrefix"]))
    found += _times(wanted, table)
    if "runs" in wanted:
        found += _runs(wanted["runs"])
    return (*found, *(conditions(wanted["where"], table) if "where" in wanted else ()))


def _times(wanted: Mapping[str, str], table: Table) -> list[Condition]:
    at = {name: instant_ms(wanted[name], f"option {name}") for name, _ in _BOUNDS if name in wanted}
    if len(at) == len(_BOUNDS) and at["since"] > at["until"]:
        raise ConfigError(
            f"options since={wanted['since']!r}, until={wanted['until']!r}: the time ends before it begins"
        )
    return [Condition(TIMES[table], op, at[name]) for name, op in _BOUNDS if name in at]


def _names(text: str, option: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not found:
        raise ConfigError(f"option {option}={text!r}: names, with commas between them")
    return found


def _columns(text: str | None, table: Table) -> tuple[str, ...] | None:
    if text is None:
        return None
    names, known = _names(text, "columns"), SCHEMAS[table].names
    wrong = next((name for name in names if name not in known), None)
    if wrong is not None:
        raise ConfigError(f"option columns: {table} has no column {wrong!r}; it has {', '.join(known)}")
    return tuple(name for name in known if name in names)


def _runs(text: str) -> list[Condition]:
    match = re.fullmatch(r"\s*(\d*)\s*(-?)\s*(\d*)\s*", text)
    if match is None or not (match[1] or match[3]):
        raise ConfigError(f"option runs={text!r}: a run or a range of them, such as 7, 100-200, 100- or -200")
    first, last = match[1], match[3] if match[2] else match[1]
    if int(last or MOST_WHOLE) > MOST_WHOLE or int(first or 0) > int(last or MOST_WHOLE):
        raise ConfigError(f"option runs={text!r}: no run has such a number, or the last comes before the first")
    least: list[Condition] = [Condition("run", ">=", int(first))] if first else []
    return [*least, Condition("run", "<=", int(last))] if last else least


def _one_of(name: str, value: str, known: tuple[Word, ...]) -> Word:
    found = next((each for each in known if each == value.lower()), None)
    if found is None:
        raise ConfigError(f"option {name}={value!r} is none of {', '.join(known)}")
    return found


def _count(wanted: Mapping[str, str], name: str) -> int | None:
    value = wanted.get(name)
    if value is not None and (not (value.isascii() and value.isdigit()) or int(value) < 1):
        raise ConfigError(f"option {name}={value!r}: a whole number from 1")
    return None if value is None else int(value)
