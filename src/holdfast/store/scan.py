"""Reading whole tables, beside the store: what a data pipeline needs, and no worker ever waits for.

A scan is synchronous, opens connections of its own, and works in any process. It takes no lock for writing, and every
statement is short. Stores that can do it have a method `scan()`; a store of another package need not.

A position is the same text that `Store.events` gives. Between two positions lie certain events, for ever: whoever
reads from one to the other, and does it again, gets the same rows, however late some of them were committed.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import compress
from typing import Any, Literal, Protocol

import msgspec

from ..core.bound import SCANNED_AT_ONCE
from ..errors import ConfigError, LogGap
from .shown import shown
from .url import open_store

Table = Literal["events", "jobs"]
Op = Literal["=", "in", "<", "<=", ">", ">=", "starts", "null", "set"]
Columns = Mapping[str, Sequence[Any]]
"""Some rows, column by column, all of one length: lists, or whatever else Arrow takes."""

EVENT_COLUMNS = (
    "epoch", "sequence", "at_ms", "queue", "id", "run", "attempt", "transition", "state", "cause", "task", "worker",
    "key", "priority", "run_at_ms", "failures", "stalls", "timeouts", "releases", "wait_ms", "run_ms", "error_type",
    "error_signature", "progress", "message", "payload", "envelope", "actor",
)  # fmt: skip
JOB_COLUMNS = (
    "queue", "id", "run", "task", "state", "priority", "key", "run_at_ms", "enqueued_at_ms", "started_at_ms",
    "finished_at_ms", "expires_at_ms", "attempts", "failures", "stalls", "timeouts", "releases", "worker", "holds_id",
    "cancel_requested", "successor", "chain_queue", "chain_id", "chain_run", "position", "chain_state", "blockers",
    "progress", "error", "envelope", "payload", "checkpoint", "result",
)  # fmt: skip
"""Of these, `progress`, `error` and `envelope` are JSON, as bytes."""


class Condition(msgspec.Struct, frozen=True):
    """A column compared with a value; with several for `in`, with none for `null` and `set`."""

    column: str
    op: Op
    value: Any = None


class ScanPart(msgspec.Struct, frozen=True, kw_only=True):
    """A share of a table, to be read on its own. Each store has its own kind; all can be pickled."""

    missing: int = 0
    """How many of its events were known to be gone when it was planned."""
    reset: bool = False
    """The log is another one than its position was made for."""


class ScanPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be read, and in how many shares."""

    table: Table
    columns: tuple[str, ...]
    which: tuple[Condition, ...] = ()
    after: str | None = None
    """Events after this position; `None` is the beginning of the log."""
    upto: str | None = None
    """Events up to this position; `None` is the end of the log."""
    parts: int = 1
    least: int = SCANNED_AT_ONCE
    """A share is not made smaller than this for the sake of another."""

    def only(self, column: str) -> tuple[Any, ...] | None:
        """Return the values that a column must have one of; `None` when it may have any."""
        named = [each for each in self.which if each.column == column and each.op in ("=", "in")]
        if not named:
            return None
        first, *others = [tuple(each.value) if each.op == "in" else (each.value,) for each in named]
        return tuple(value for value in first if all(value in other for other in others))

    def runs(self, first: int, last: int) -> tuple[int, int]:
        """Return the runs that can match, of those from `first` to `last`: above the one number, up to the other."""
        low, high = first - 1, last
        for each in self.which:
            if each.column != "run" or each.op not in _RUNS:
                continue
            least, most = _RUNS[each.op](each.value)
            low, high = max(low, low if least is None else least - 1), min(high, high if most is None else most)
        return low, high


_RUNS: dict[str, Callable[[int], tuple[int | None, int | None]]] = {
    "=": lambda run: (run, run),
    ">": lambda run: (run + 1, None),
    ">=": lambda run: (run, None),
    "<": lambda run: (None, run - 1),
    "<=": lambda run: (None, run),
}
"""The least and the most that a run may be."""
LAST_RUN = 2**62
"""Above every run: the end of a share that has those, too, which come after it was planned."""


def run_shares(plan: ScanPlan, first: int, last: int) -> list[tuple[int, int]]:
    """Return runs in shares: (above, up to). The last one takes also what comes later, as far as the plan wants it."""
    low, high = plan.runs(first, LAST_RUN)
    found = shares(low, min(high, last), plan.parts, plan.least)
    start = found.pop()[0] if found else low
    return [*found, (start, high)] if high > start else found


class Scan(Protocol):
    """Reads one store's tables."""

    def end(self, queues: Sequence[str] | None = None) -> str:
        """Return the position after every event that is committed now."""

    def reach(
        self, after: str | None, limit: int | None, which: Sequence[Condition] = (), upto: str | None = None
    ) -> str:
        """Return a position further on, with at most `limit` matching events before it, at most `upto` or the end.

        Without a limit it is `upto`, or the end, whichever of them has read more than `after`. With one there are fewer
        events only where no more are, or where the store has looked at as many as it will for one call.

        When `after` is of another log, it is as if it were the beginning of the one that is there now.
        """

    def takes(self, table: Table, condition: Condition) -> bool:
        """True when a plan may have this condition."""

    def plan(self, plan: ScanPlan) -> Sequence[ScanPart]:
        """Return the shares that together are what is wanted, each row in one of them.

        A share of jobs is read as they are then; one of the shares has those, too, that were enqueued meanwhile.
        """

    def read(self, plan: ScanPlan, part: ScanPart) -> Iterator[Columns]:
        """Yield the rows of a share, in order. Events that are gone by now raise `LogGap`, once the rest is read."""

    def close(self) -> None:
        """Nothing is held open."""


def clauses(which: Sequence[Condition], name: Callable[[str], str], mark: str) -> tuple[list[str], list[Any]]:
    """Return conditions as SQL, and the values for its marks. Texts compare by their bytes, as in Spark."""
    found: list[str] = []
    values: list[Any] = []
    for each in which:
        column = name(each.column)
        if each.op in ("null", "set"):
            found.append(f"{column} IS {'NOT ' if each.op == 'set' else ''}NULL")
        elif each.op == "in":
            found.append(f"{column} IN ({', '.join([mark] * len(each.value))})" if each.value else "1 = 0")
            values.extend(each.value)
        elif each.op == "starts":
            found.append(f"substr({column}, 1, {len(each.value)}) = {mark}")
            values.append(each.value)
        else:
            found.append(f"{column} {each.op} {mark}")
            values.append(each.value)
    return found, values


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda have, wanted: have in wanted,
    "starts": lambda have, wanted: have.startswith(wanted),
}


def matching(columns: Columns, which: Sequence[Condition]) -> Columns:
    """Return the rows that meet every condition, where the store itself cannot choose."""
    for each in which:
        column = listed(columns[each.column])
        if each.op in ("null", "set"):
            keep = [(have is None) == (each.op == "null") for have in column]
        else:
            compare, wanted = _COMPARE[each.op], each.value
            keep = [have is not None and compare(have, wanted) for have in column]
        if not all(keep):
            columns = {name: list(compress(listed(values), keep)) for name, values in columns.items()}
    return columns


def listed(values: Any) -> Sequence[Any]:
    """Return a column of a page as values of Python."""
    return values.to_pylist() if hasattr(values, "to_pylist") else values  # type: ignore[no-any-return]


def shares(low: int, high: int, parts: int, least: int) -> list[tuple[int, int]]:
    """Return the numbers above `low` and up to `high` in at most so many shares: (above, up to)."""
    size = max(least, -(-(high - low) // max(1, parts)))
    return [(start, min(high, start + size)) for start in range(low, high, size)]


def lost(place: object, missing: int | None) -> LogGap:
    """Return the error for events that are gone."""
    what = "the log was reset" if missing is None else f"{missing} events were trimmed from the log"
    return LogGap(
        f"{place}: {what} before they could be read; read more often, or raise history= in the store's URL "
        "(to go on without them: failOnDataLoss=false)",
        missing=missing,
    )


def open_scan(url: str) -> Scan:
    """Return a scan of the store that a URL names."""
    make = getattr(open_store(url), "scan", None)
    if make is None:
        raise ConfigError(f"{shown(url)!r}: this store has no scan, so that whole tables cannot be read from it")
    scan: Scan = make()
    return scan
