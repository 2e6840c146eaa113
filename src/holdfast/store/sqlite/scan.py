"""Whole tables out of the file. Readers stop no writer, and pages are short, so that the write-ahead log can shrink."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ...errors import ConfigError, StoreError, StoreTooNew
from ..scan import Columns, Condition, Part, Plan, Table, clauses, lost, shares
from ..text import from_json_lines
from . import sql
from .aside import may_be_garbage
from .column import is_utf8, odd
from .connection import Place, schema_version, translated

PAGE = 20_000
_EVENT = {"sequence": "seq", "epoch": "(SELECT value FROM holdfast_meta WHERE name = 'epoch')"}
_JOB = {
    "started_at_ms": "claimed_at_ms",
    "worker": "session",
    "holds_id": "(held = 1 AND (free_at_ms IS NULL OR free_at_ms > {now}))",
    "cancel_requested": "(cancel = 1)",
    "successor": "((state = 'active' OR chain_state = 'open') AND EXISTS (SELECT 1 FROM holdfast_successor s"
    " WHERE s.queue = j.queue AND s.id = j.id))",
    "chain_queue": "(SELECT c.queue FROM holdfast_job c WHERE c.run = j.chain)",
    "chain_id": "(SELECT c.id FROM holdfast_job c WHERE c.run = j.chain)",
    "chain_run": "(SELECT c.run FROM holdfast_job c WHERE c.run = j.chain)",
    "position": "j.position",
    "chain_state": "CASE chain_state WHEN 'open' THEN 'active' ELSE chain_state END",
    "blockers": "CASE state WHEN 'blocked' THEN coalesce(blockers, 0) ELSE 0 END",
}
_NAMES: dict[Table, dict[str, str]] = {"events": _EVENT, "jobs": _JOB}
"""Columns that the tables call something else."""
_WRITTEN = {
    "sequence": "seq",
    "progress": "CASE WHEN progress IS NOT NULL THEN printf('%!.17g', progress) END",
    "payload": "CASE WHEN payload IS NOT NULL THEN hex(payload) END",
}
"""Columns of an event that JSON would not give back as they are."""
_PLAIN = {"holds_id", "cancel_requested", "successor", "progress", "error", "headers"}
"""Columns of a job by which it cannot be chosen here."""


class SqlitePart(Part, frozen=True, kw_only=True):
    """Rows with a number above `low`, up to `high`: sequences of events, or runs."""

    low: int
    high: int
    epoch: str = ""
    anchored: bool = False
    """Whether somebody has read up to `low`, so that whatever is gone above it is a gap."""


class SqliteScan:
    """Reads one file."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._connection: sqlite3.Connection | None = None

    # --- positions

    def end(self, queues: Sequence[str] | None = None) -> str:
        """Return the position after the last event."""
        epoch, _, newest = self._log()
        return f"{epoch}:{newest}"

    def reach(
        self, after: str | None, limit: int | None, which: Sequence[Condition] = (), upto: str | None = None
    ) -> str:
        """Return a position with at most `limit` matching events before it."""
        epoch, first, newest = self._log()
        low, _ = self._low(after, epoch, first, newest)
        low = max(low, first - 1)
        if upto is not None:
            newest, _ = self._low(upto, epoch, first, newest)
        if limit is None:
            return f"{epoch}:{max(low, newest)}"
        if not which or limit < 1:
            return f"{epoch}:{max(low, min(newest, low + limit))}"
        chosen, values = clauses(which, _naming("events"), "?")
        where = " AND ".join(["seq > ?", "seq <= ?", *chosen])
        query = f"SELECT seq FROM holdfast_event WHERE {where} ORDER BY seq LIMIT 1 OFFSET ?"
        row = self._rows(query, [low, newest, *values, limit - 1])
        return f"{epoch}:{row[0][0] if row else max(low, newest)}"

    def _log(self) -> tuple[str, int, int]:
        """Return the log's epoch, its first event and its last."""
        ((epoch, first, newest),) = self._rows(
            "SELECT (SELECT value FROM holdfast_meta WHERE name = 'epoch'), (SELECT min(seq) FROM holdfast_event),"
            " coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'holdfast_event'), 0)"
        )
        return str(epoch), newest + 1 if first is None else first, newest

    def _low(self, position: str | None, epoch: str, first: int, newest: int) -> tuple[int, bool]:
        """Return where reading goes on, and whether the log is another one."""
        if position is None:
            return first - 1, False
        theirs, _, seq = position.partition(":")
        if not seq.isdigit():
            raise ConfigError(f"position {position!r} is not one that the event log gave")
        return (0, True) if theirs != epoch or int(seq) > newest else (int(seq), False)

    # --- planning

    def takes(self, table: Table, condition: Condition) -> bool:
        """True for every column of the table itself."""
        return table == "events" or condition.column not in _PLAIN

    def plan(self, plan: Plan) -> list[SqlitePart]:
        """Return ranges of sequences or runs."""
        return self._plan_events(plan) if plan.table == "events" else self._plan_jobs(plan)

    def _plan_events(self, plan: Plan) -> list[SqlitePart]:
        epoch, first, newest = self._log()
        low, reset = self._low(plan.after, epoch, first, newest)
        high, gone = self._low(plan.upto, epoch, first, newest) if plan.upto is not None else (newest, False)
        anchored = plan.after is not None and not reset
        parts = [
            SqlitePart(low=start, high=stop, epoch=epoch, anchored=anchored)
            for start, stop in shares(low, high, plan.parts, plan.least)
        ]
        return [SqlitePart(low=0, high=0, epoch=epoch, reset=True), *parts] if reset or gone else parts

    def _plan_jobs(self, plan: Plan) -> list[SqlitePart]:
        ((first, last),) = self._rows("SELECT min(run), max(run) FROM holdfast_job")
        if first is None:
            return []
        return [SqlitePart(low=low, high=high) for low, high in shares(first - 1, last, plan.parts, plan.least)]

    # --- reading

    def read(self, plan: Plan, part: Part) -> Iterator[Columns]:
        """Yield a range, page by page."""
        assert isinstance(part, SqlitePart)
        if part.reset:
            raise lost(self.place, None)
        for low in range(part.low, part.high, PAGE):
            yield from self._pages(plan, low, min(low + PAGE, part.high), part.epoch)
        if part.anchored:
            self._check(part)

    def _pages(self, plan: Plan, low: int, high: int, epoch: str) -> Iterator[Columns]:
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

    def _events(self, plan: Plan, low: int, high: int, epoch: str) -> Columns:
        """Return the events of a range that can be read: the others are set aside by whoever may write."""
        try:
            return self._written(plan, low, high, epoch, careful=False)
        except Exception as error:
            if isinstance(error.__cause__, sqlite3.DataError) or not may_be_garbage(error):
                raise
            return self._written(plan, low, high, epoch, careful=True)

    def _written(self, plan: Plan, low: int, high: int, epoch: str, *, careful: bool) -> Columns:
        """Return the events of a range. SQLite writes them as text, which costs a third of making Python objects."""
        names = [name for name in plan.columns if name != "epoch"]
        written = ", ".join(_WRITTEN.get(name, name) for name in names)
        chosen, values = clauses(plan.which, _naming("events"), "?")
        where = " AND ".join(["seq > ?", "seq <= ?", f"NOT {odd('event')}" if careful else "1", *chosen])
        lines = f"SELECT json_array(0, {written}, 0) AS line FROM holdfast_event WHERE {where} ORDER BY seq"
        query = f"SELECT count(*), group_concat(line, char(10)) FROM ({lines})"
        ((count, text),) = self._rows(query, [low, high, *values])
        if not count:
            return {}
        found = from_json_lines(text, names)
        return {"epoch": [epoch] * count, **found} if "epoch" in plan.columns else found

    def _jobs(self, plan: Plan, low: int, high: int, epoch: str) -> Columns:
        naming = _naming("jobs")
        chosen, values = clauses(plan.which, naming, "?")
        alive = f"(expires_at_ms IS NULL OR expires_at_ms > {_now()})"
        where = " AND ".join(["run > ?", "run <= ?", alive, f"NOT {odd('job')}", *chosen])
        columns = ", ".join(naming(name) for name in plan.columns)
        rows = self._rows(f"SELECT {columns} FROM holdfast_job j WHERE {where} ORDER BY run", [low, high, *values])
        return dict(zip(plan.columns, zip(*rows, strict=True), strict=True)) if rows else {}

    def _check(self, part: SqlitePart) -> None:
        """Nothing of the range was trimmed, before it was read or meanwhile."""
        epoch, first, _ = self._log()
        if epoch != part.epoch:
            raise lost(self.place, None)
        missing = min(part.high, first - 1) - part.low
        if missing > 0:
            raise lost(self.place, missing)

    # --- the connection

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with translated(self.place):
            connection = self._connection or self._connect()
            return connection.execute(sql.rename(query, self.place.namespace), values).fetchall()

    def _connect(self) -> sqlite3.Connection:
        path = self.place.path
        if path is None:
            raise ConfigError(f"{self.place} is the memory of one process and cannot be scanned; use a file")
        if not Path(path).exists():
            raise StoreError(f"{self.place} is not there; check the path, which is relative to {Path.cwd()}")
        location = f"file:{quote(str(Path(path).absolute()))}?mode=ro"
        connection = sqlite3.connect(
            location, uri=True, timeout=self.place.busy_timeout, isolation_level=None, check_same_thread=False
        )
        connection.create_function("is_utf8", 1, is_utf8, deterministic=True)
        self._connection = connection
        found = schema_version(connection, self.place)
        if found == 0:
            raise StoreError(f"{self.place} has no tables of Holdfast; check the path, and namespace= in the URL")
        if found > sql.migrations()[-1][0]:
            raise StoreTooNew(f"{self.place} was written by a newer Holdfast: upgrade holdfast to read it")
        return connection

    def close(self) -> None:
        """Nothing is held open."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _naming(table: Table) -> Callable[[str], str]:
    """Return how a column of the table is spelled in SQL."""
    names = {name: text.replace("{now}", str(_now())) for name, text in _NAMES[table].items()}
    return lambda column: names.get(column, column)


def _now() -> int:
    return time.time_ns() // 1_000_000
