"""Whole tables out of the file. Readers stop no writer, and pages are short, so that the write-ahead log can shrink."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ....core.bound import SCANNED_AT_ONCE
from ....errors import ConfigError, StoreError, StoreTooNew
from ...csv import from_json_lines
from ...scan import Columns, Condition, ScanPart, ScanPlan, Table, clauses, lost, run_shares, shares
from .. import sql
from ..connection.error import translated
from ..connection.schema import schema_version
from ..repair.columns import is_utf8, unreadable
from ..repair.repair import may_be_unreadable
from ..url import SqliteAddress
from .columns import AS_JSON, UNCHOSEN, naming, now_ms
from .position import LogSpan, log_span


class SqlitePart(ScanPart, frozen=True, kw_only=True):
    """Rows with a number above `low`, up to `high`: sequences of events, or runs."""

    low: int
    high: int
    epoch: str = ""
    anchored: bool = False
    """Whether a reader has read up to `low`, so that events which are gone above it are a gap."""


class SqliteScan:
    """Reads one file."""

    def __init__(self, address: SqliteAddress) -> None:
        self.address = address
        self._connection: sqlite3.Connection | None = None
        self._latest = ""
        """The text of the latest page, kept until the next one has come: memory that was freed before would go back to
        the kernel, and to have it again costs a fifth of the reading."""

    # --- positions

    def end(self, queues: Sequence[str] | None = None) -> str:
        """Return the position after the last event."""
        log = self._log()
        return log.position(log.newest)

    def reach(
        self, after: str | None, limit: int | None, which: Sequence[Condition] = (), upto: str | None = None
    ) -> str:
        """Return a position with at most `limit` matching events before it."""
        log = self._log()
        low = max(log.after(after)[0], log.first - 1)
        newest = log.newest if upto is None else log.after(upto)[0]
        if limit is None:
            return log.position(max(low, newest))
        if not which or limit < 1:
            return log.position(max(low, min(newest, low + limit)))
        chosen, values = clauses(which, naming("events"), "?")
        where = " AND ".join(["seq > ?", "seq <= ?", *chosen])
        query = f"SELECT seq FROM holdfast_event WHERE {where} ORDER BY seq LIMIT 1 OFFSET ?"
        row = self._rows(query, [low, newest, *values, limit - 1])
        return log.position(row[0][0] if row else max(low, newest))

    def _log(self) -> LogSpan:
        return log_span(self._rows)

    # --- planning

    def takes(self, table: Table, condition: Condition) -> bool:
        """True for every column of the table itself."""
        return table == "events" or condition.column not in UNCHOSEN

    def plan(self, plan: ScanPlan) -> list[SqlitePart]:
        """Return ranges of sequences or runs."""
        return self._plan_events(plan) if plan.table == "events" else self._plan_jobs(plan)

    def _plan_events(self, plan: ScanPlan) -> list[SqlitePart]:
        log = self._log()
        low, reset = log.after(plan.after)
        high, gone = log.after(plan.upto) if plan.upto is not None else (log.newest, False)
        anchored = plan.after is not None and not reset
        parts = [
            SqlitePart(low=start, high=stop, epoch=log.epoch, anchored=anchored)
            for start, stop in shares(low, high, plan.parts, plan.least)
        ]
        return [SqlitePart(low=0, high=0, epoch=log.epoch, reset=True), *parts] if reset or gone else parts

    def _plan_jobs(self, plan: ScanPlan) -> list[SqlitePart]:
        ((first, last),) = self._rows("SELECT coalesce(min(run), 1), coalesce(max(run), 0) FROM holdfast_job")
        return [SqlitePart(low=low, high=high) for low, high in run_shares(plan, first, last)]

    def _last_run(self) -> int:
        ((last,),) = self._rows("SELECT coalesce(max(run), 0) FROM holdfast_job")
        return int(last)

    # --- reading

    def read(self, plan: ScanPlan, part: ScanPart) -> Iterator[Columns]:
        """Yield a range, page by page."""
        assert isinstance(part, SqlitePart)
        if part.reset:
            raise lost(self.address, None)
        high = part.high if plan.table == "events" else min(part.high, self._last_run())
        for low in range(part.low, high, SCANNED_AT_ONCE):
            yield from self._pages(plan, low, min(low + SCANNED_AT_ONCE, high), part.epoch)
        if part.anchored:
            self._check(part)

    def _pages(self, plan: ScanPlan, low: int, high: int, epoch: str) -> Iterator[Columns]:
        """Yield a page, or its halves when it has more in it than SQLite can put into one text."""
        read = self._events if plan.table == "events" else self._jobs
        try:
            found = read(plan, low, high, epoch)
        except StoreError as error:
            if not isinstance(error.__cause__, sqlite3.DataError) or high - low == 1:
                raise
            middle = (low + high) // 2
            yield from self._pages(plan, low, middle, epoch)
            yield from self._pages(plan, middle, high, epoch)
            return
        if found:
            yield found

    def _events(self, plan: ScanPlan, low: int, high: int, epoch: str) -> Columns:
        """Return the events of a range that can be read: the others are set aside by the store itself."""
        try:
            return self._written(plan, low, high, epoch, careful=False)
        except Exception as error:
            if isinstance(error.__cause__, sqlite3.DataError) or not may_be_unreadable(error):
                raise
            return self._written(plan, low, high, epoch, careful=True)

    def _written(self, plan: ScanPlan, low: int, high: int, epoch: str, *, careful: bool) -> Columns:
        """Return the events of a range. SQLite writes them as text, which costs a third of making Python objects."""
        names = [name for name in plan.columns if name != "epoch"]
        written = ", ".join(AS_JSON.get(name, name) for name in names)
        chosen, values = clauses(plan.which, naming("events"), "?")
        where = " AND ".join(["seq > ?", "seq <= ?", f"NOT {unreadable('event')}" if careful else "1", *chosen])
        lines = f"SELECT json_array(0, {written}, 0) AS line FROM holdfast_event WHERE {where} ORDER BY seq"
        query = f"SELECT count(*), group_concat(line, char(10)) FROM ({lines})"
        ((count, text),) = self._rows(query, [low, high, *values])
        if not count:
            return {}
        self._latest = text
        found = from_json_lines(text, names)
        return {"epoch": [epoch] * count, **found} if "epoch" in plan.columns else found

    def _jobs(self, plan: ScanPlan, low: int, high: int, epoch: str) -> Columns:
        spelled = naming("jobs")
        chosen, values = clauses(plan.which, spelled, "?")
        alive = f"(expires_at_ms IS NULL OR expires_at_ms > {now_ms()})"
        where = " AND ".join(["run > ?", "run <= ?", alive, f"NOT {unreadable('job')}", *chosen])
        columns = ", ".join(spelled(name) for name in plan.columns)
        rows = self._rows(f"SELECT {columns} FROM holdfast_job j WHERE {where} ORDER BY run", [low, high, *values])
        return dict(zip(plan.columns, zip(*rows, strict=True), strict=True)) if rows else {}

    def _check(self, part: SqlitePart) -> None:
        """Raise `LogGap` when some of the range was trimmed before it was read, or meanwhile."""
        log = self._log()
        if log.epoch != part.epoch:
            raise lost(self.address, None)
        missing = min(part.high, log.first - 1) - part.low
        if missing > 0:
            raise lost(self.address, missing)

    # --- the connection

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with translated(self.address):
            connection = self._connection or self._connect()
            return connection.execute(sql.rename(query, self.address.namespace), values).fetchall()

    def _connect(self) -> sqlite3.Connection:
        path = self.address.path
        if path is None:
            raise ConfigError(f"{self.address} is the memory of one process and cannot be scanned; use a file")
        if not Path(path).exists():
            raise StoreError(f"{self.address} is not there; check the path, which is relative to {Path.cwd()}")
        location = f"file:{quote(str(Path(path).absolute()))}?mode=ro"
        connection = sqlite3.connect(
            location, uri=True, timeout=self.address.busy_timeout, isolation_level=None, check_same_thread=False
        )
        connection.create_function("is_utf8", 1, is_utf8, deterministic=True)
        self._connection = connection
        found = schema_version(connection, self.address)
        if found == 0:
            raise StoreError(f"{self.address} has no tables of Holdfast; check the path, and namespace= in the URL")
        if found > sql.migrations()[-1][0]:
            raise StoreTooNew(f"{self.address} was written by a newer Holdfast: upgrade holdfast to read it")
        return connection

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection, self._latest = self._connection, None, ""
        if connection is not None:
            connection.close()
