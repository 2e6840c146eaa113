"""Whole tables out of the server, in pages, each with a snapshot of its own: nothing holds up a vacuum.

Which events lie between two positions does not depend on the snapshot that reads them: a position names the
transactions that were open when it was made, and leaves their events to a later one (`position.Position`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import psycopg
from psycopg.rows import dict_row

from ....core.bound import SCANNED_AT_ONCE
from ....errors import StoreError
from ...csv import from_csv
from ...rows import Row
from ...scan import Columns, Condition, ScanPart, ScanPlan, Table, clauses, lost, run_shares
from .. import sql
from ..connection.errors import translate
from ..url import PostgresAddress
from .columns import EVENT, JOB, UNSELECTABLE, WRITTEN, compared
from .position import Position, cut, end_of, is_of_another
from .ranges import PostgresPart, Value, narrowed, ranges, source

Found = tuple[Any, ...]
"""A row: which types are in it, the query says."""
START = Position()
NO_JIT = "SELECT set_config('jit', 'off', false) WHERE pg_backend_pid() = %s"
"""Compiling takes longer than a page. Behind a pooler, which has numbers of its own, the session is others' too."""


class PostgresScan:
    """Reads one schema."""

    def __init__(self, address: PostgresAddress) -> None:
        self.address = address
        self._connection: psycopg.Connection[Found] | None = None

    # --- positions

    def end(self, queues: Sequence[str] | None = None) -> str:
        """Return the position after every event that is committed now."""
        return str(end_of(self._log(START), START))

    def reach(
        self, after: str | None, limit: int | None, which: Sequence[Condition] = (), upto: str | None = None
    ) -> str:
        """Return a position with at most `limit` matching events before it."""
        at, end = self._between(after, upto)
        if limit is None:
            return str(end)
        left = limit
        for part in ranges(at, end) if limit > 0 else ():
            number, count = self._nth(part, which, left)
            if number is not None:
                return str(cut(at, end, number))
            left -= count
        return str(end if limit > 0 else at)

    def _between(self, after: str | None, upto: str | None) -> tuple[Position, Position]:
        """Return two positions of this log; its beginning and its end, where they are of another."""
        at = Position() if after is None else Position.parse(after)
        log = self._log(at)
        at = Position(log["epoch"]) if is_of_another(at, log) else msgspec.structs.replace(at, epoch=log["epoch"])
        end = None if upto is None else Position.parse(upto)
        if end is None or is_of_another(end, log):
            end = end_of(log, at)
        return at, cut(at, end, end.number)

    def _nth(self, part: PostgresPart, which: Sequence[Condition], number: int) -> tuple[int | None, int]:
        """Return the number of the nth event of a part, and how many there are, when there are fewer."""
        rows, values = self._source(part, which)
        ((count, found),) = self._rows(
            "SELECT count(*), max(seq) FILTER (WHERE n = %s)"
            " FROM (SELECT e.seq, row_number() OVER (ORDER BY e.last, e.seq) AS n"
            f" FROM {rows} ORDER BY e.last, e.seq LIMIT %s) numbered",
            [number, *values, number],
        )
        return found, int(count)

    def _log(self, after: Position) -> Row:
        with self._cursor() as cursor:
            cursor.row_factory = dict_row  # type: ignore[assignment]
            cursor.execute(sql.statements(self.address.schema)["end"].encode(), after.values())
            (row,) = cursor.fetchall()
        return row  # type: ignore[return-value]

    # --- planning

    def takes(self, table: Table, condition: Condition) -> bool:
        """True for every column of the table itself."""
        return table == "events" or condition.column not in UNSELECTABLE

    def plan(self, plan: ScanPlan) -> list[PostgresPart]:
        """Return ranges of the log, or of runs."""
        return self._plan_events(plan) if plan.table == "events" else self._plan_jobs(plan)

    def _plan_events(self, plan: ScanPlan) -> list[PostgresPart]:
        at = Position() if plan.after is None else Position.parse(plan.after)
        log = self._log(at)
        upto = end_of(log, at) if plan.upto is None else Position.parse(plan.upto)
        if is_of_another(upto, log):
            return [PostgresPart(reset=True)]
        gap: list[PostgresPart] = []
        if is_of_another(at, log):
            gap, at = [PostgresPart(reset=True)], Position()
        upto = cut(at, upto, upto.number)
        if at.epoch and (missing := self._missing(log, at, upto)):
            gap = [PostgresPart(missing=missing)]
        parts = [part for each in ranges(at, upto) for part in self._split(plan, each)]
        return gap + [part for part in parts if part.rows]

    def _missing(self, log: Row, after: Position, upto: Position) -> int:
        """Return how many events were trimmed unread, as far as is known, at least one for each late transaction."""
        ended = msgspec.structs.replace(after, late=tuple(each for each in after.late if each not in upto.late))
        ((lost,),) = (
            self._rows(sql.statements(self.address.schema)["missing"], ended.values()) if ended.late else ((0,),)
        )
        return max(0, min(int(log["trimmed"]), upto.number) - after.number) + int(lost)

    def _split(self, plan: ScanPlan, whole: PostgresPart) -> list[PostgresPart]:
        rows, values = self._source(whole, plan.which)
        ((count,),) = self._rows(f"SELECT count(*) FROM {rows}", values)
        size = max(plan.least, -(-count // max(1, plan.parts)))
        if count <= size:
            return [narrowed(whole, whole.low, whole.high, count)]
        cuts = self._rows(
            "SELECT seq FROM (SELECT e.seq, row_number() OVER (ORDER BY e.last, e.seq) AS n"
            f" FROM {rows}) numbered WHERE n %% %s = 0 AND n < %s ORDER BY n",
            [*values, size, count],
        )
        edges = [whole.low, *(seq for (seq,) in cuts), whole.high]
        sizes = [size] * len(cuts) + [count - size * len(cuts)]
        return [narrowed(whole, low, high, number) for low, high, number in zip(edges, edges[1:], sizes, strict=False)]

    def _plan_jobs(self, plan: ScanPlan) -> list[PostgresPart]:
        ((first, last),) = self._rows("SELECT coalesce(min(run), 1), coalesce(max(run), 0) FROM holdfast.job")
        return [PostgresPart(low=low, high=high) for low, high in run_shares(plan, first, last)]

    # --- reading

    def read(self, plan: ScanPlan, part: ScanPart) -> Iterator[Columns]:
        """Yield a range, page by page."""
        assert isinstance(part, PostgresPart)
        if part.reset or part.missing:
            raise lost(self.address, part.missing or None)
        read = self._events if plan.table == "events" else self._jobs
        low, count = part.low, 0
        while True:
            found, last, size = read(plan, msgspec.structs.replace(part, low=low))
            if size:
                low, count = last, count + size
                yield found
            if size < SCANNED_AT_ONCE:
                break
        if part.rows is not None and count < part.rows:
            raise lost(self.address, part.rows - count)

    def _events(self, plan: ScanPlan, part: PostgresPart) -> tuple[Columns, int, int]:
        """Return the next events of a part. The server writes them as text, which Arrow reads faster than Python."""
        names = [name for name in plan.columns if name != "epoch"]
        written = ", ".join(WRITTEN.get(name, f"e.{name}") for name in names)
        rows, values = self._source(part, plan.which)
        text = self._copied(
            f"SELECT {', '.join(filter(None, ['e.seq', written]))} FROM {rows}"
            f" ORDER BY e.last, e.seq LIMIT {SCANNED_AT_ONCE}",
            values,
        )
        if not text:
            return {}, part.low, 0
        found = from_csv(text, ["seq", *names])
        seqs = found.pop("seq")
        if "epoch" in plan.columns:
            found["epoch"] = [part.epoch] * len(seqs)
        return found, int(seqs[-1].as_py()), len(seqs)

    def _jobs(self, plan: ScanPlan, part: PostgresPart) -> tuple[Columns, int, int]:
        names = ", ".join(JOB.get(name, name) for name in plan.columns)
        conditions, values = clauses(plan.which, compared(JOB), "%s")
        where = " AND ".join(["e.run > %s AND e.run <= %s", *conditions])
        current = sql.statements(self.address.schema)["current"]
        rows = self._rows(
            f"SELECT e.run, {names} FROM ({current}) e WHERE {where}"
            " AND (expires_at_ms IS NULL OR expires_at_ms > holdfast.clock(NULL))"
            f" ORDER BY e.run LIMIT {SCANNED_AT_ONCE}",
            [part.low, part.high, *values],
        )
        if not rows:
            return {}, part.low, 0
        runs, *columns = zip(*rows, strict=True)
        return dict(zip(plan.columns, columns, strict=True)), runs[-1], len(runs)

    def _source(self, part: PostgresPart, which: Sequence[Condition]) -> tuple[str, list[Value]]:
        """Return the events of a part that match, as SQL."""
        found, wanted = clauses(which, compared(EVENT), "%s")
        text, values = source(part)
        return " AND ".join([text, *found]), [*values, *wanted]

    # --- the connection

    def _rows(self, query: str, values: Sequence[Value] | Mapping[str, Value] = ()) -> list[Found]:
        with self._cursor() as cursor:
            cursor.execute(self._named(query), values or None)
            return cursor.fetchall()

    def _copied(self, query: str, values: Sequence[Value]) -> bytes:
        """Return rows as text. Each is a message of its own; straight from libpq, they come five times as fast."""
        with self._cursor() as cursor:
            text = psycopg.ClientCursor(cursor.connection).mogrify(
                self._named(f"COPY ({query}) TO STDOUT (FORMAT csv)"), values
            )
            libpq = cursor.connection.pgconn
            begun = libpq.exec_(text.encode())
            if begun.status != psycopg.pq.ExecStatus.COPY_OUT:
                raise psycopg.errors.error_from_result(begun)
            lines = []
            while (line := libpq.get_copy_data(0))[0] > 0:
                lines.append(bytes(line[1]))
            while (ended := libpq.get_result()) is not None:
                if ended.status != psycopg.pq.ExecStatus.COMMAND_OK:
                    raise psycopg.errors.error_from_result(ended)
            return b"".join(lines)

    def _named(self, query: str) -> bytes:
        return sql.rename(query, self.address.schema).encode()

    @contextmanager
    def _cursor(self) -> Iterator[psycopg.Cursor[Found]]:
        """Yield a cursor; errors of the server become ours."""
        try:
            with (self._connection or self._connect()).cursor(binary=True) as cursor:
                yield cursor
        except psycopg.errors.UndefinedTable as error:
            raise StoreError(
                f"{self.address} has no tables of Holdfast; check schema=, or run holdfast migrate"
            ) from error
        except psycopg.Error as error:
            raise translate(error, self.address) from error

    def _connect(self) -> psycopg.Connection[Found]:
        self._connection = psycopg.connect(
            self.address.conninfo,
            autocommit=True,
            prepare_threshold=None,
            application_name="holdfast-scan",
            connect_timeout=max(1, round(self.address.patience)),
        )
        self._connection.read_only = True
        self._connection.execute(NO_JIT, (self._connection.info.backend_pid,))
        return self._connection

    def close(self) -> None:
        """Nothing is held open."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
