"""Whole tables out of the server, in pages, each with a snapshot of its own: nothing holds up a vacuum.

Which events lie between two positions does not depend on the snapshot that reads them: a position names the
transactions that were open when it was made, and leaves their events to a later one (`look.Position`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import psycopg
from psycopg.rows import dict_row

from ...errors import StoreError
from ..row import Row
from ..scan import Columns, Condition, Part, Plan, Table, clauses, lost, shares
from ..text import from_csv
from . import sql
from .connection import Place, translate
from .position import Position, cut, end_of, is_of_another
from .span import PostgresPart, narrowed, ranges, source

PAGE = 20_000
START = Position()
_EVENT = {"sequence": "e.seq", "epoch": "(SELECT value FROM holdfast.meta WHERE name = 'epoch')"}
"""Columns that the tables call something else."""
_JOB = {
    "started_at_ms": "claimed_at_ms",
    "worker": "session",
    "holds_id": "(held AND (free_at_ms IS NULL OR free_at_ms > holdfast.clock(NULL)))",
    "cancel_requested": "cancel",
    "successor": "((state = 'active' OR chain_state = 'open') AND EXISTS (SELECT 1 FROM holdfast.successor s"
    " WHERE s.queue = e.queue AND s.id = e.id))",
    "chain_queue": "(SELECT c.queue FROM holdfast.job c WHERE c.run = e.chain)",
    "chain_id": "(SELECT c.id FROM holdfast.job c WHERE c.run = e.chain)",
    "chain_run": "(SELECT c.run FROM holdfast.job c WHERE c.run = e.chain)",
    "position": "e.position",
    "chain_state": "CASE chain_state WHEN 'open' THEN 'active' ELSE chain_state END",
    "blockers": "CASE state WHEN 'blocked' THEN coalesce(blockers, 0) ELSE 0 END",
}
_WRITTEN = {"sequence": "e.seq AS sequence", "payload": "encode(e.payload, 'hex')"}
"""Columns of an event as text."""
_PLAIN = {"holds_id", "cancel_requested", "successor", "progress", "error", "headers"}
"""Columns of a job by which it cannot be chosen here."""
_WORDS = {
    "queue", "id", "transition", "state", "cause", "task", "worker", "key", "error_type", "error_signature", "message",
    "chain_state",
}  # fmt: skip


class PostgresScan:
    """Reads one schema."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None

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
            " FROM (SELECT e.seq, row_number() OVER (ORDER BY e.seq) AS n"
            f" FROM {rows} ORDER BY e.seq LIMIT %s) numbered",
            [number, *values, number],
        )
        return found, int(count)

    def _log(self, after: Position) -> Row:
        with self._cursor() as cursor:
            cursor.row_factory = dict_row  # type: ignore[assignment]
            cursor.execute(sql.statements(self.place.schema)["end"].encode(), after.values())
            (row,) = cursor.fetchall()
        return row  # type: ignore[return-value]

    # --- planning

    def takes(self, table: Table, condition: Condition) -> bool:
        """True for every column of the table itself."""
        return table == "events" or condition.column not in _PLAIN

    def plan(self, plan: Plan) -> list[PostgresPart]:
        """Return ranges of the log, or of runs."""
        return self._plan_events(plan) if plan.table == "events" else self._plan_jobs(plan)

    def _plan_events(self, plan: Plan) -> list[PostgresPart]:
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
        """Return how many events were trimmed unread, as far as anybody knows, one for each late transaction."""
        ended = msgspec.structs.replace(after, late=tuple(each for each in after.late if each not in upto.late))
        ((lost,),) = self._rows(sql.statements(self.place.schema)["missing"], ended.values()) if ended.late else ((0,),)
        return max(0, min(int(log["trimmed"]), upto.number) - after.number) + int(lost)

    def _split(self, plan: Plan, whole: PostgresPart) -> list[PostgresPart]:
        rows, values = self._source(whole, plan.which)
        ((count,),) = self._rows(f"SELECT count(*) FROM {rows}", values)
        size = max(plan.least, -(-count // max(1, plan.parts)))
        if count <= size:
            return [narrowed(whole, whole.low, whole.high, count)]
        cuts = self._rows(
            "SELECT seq FROM (SELECT e.seq, row_number() OVER (ORDER BY e.seq) AS n"
            f" FROM {rows}) numbered WHERE n %% %s = 0 AND n < %s ORDER BY n",
            [*values, size, count],
        )
        edges = [whole.low, *(seq for (seq,) in cuts), whole.high]
        sizes = [size] * len(cuts) + [count - size * len(cuts)]
        return [narrowed(whole, low, high, number) for low, high, number in zip(edges, edges[1:], sizes, strict=False)]

    def _plan_jobs(self, plan: Plan) -> list[PostgresPart]:
        ((first, last),) = self._rows("SELECT min(run), max(run) FROM holdfast.job")
        if first is None:
            return []
        runs = shares(first - 1, last, plan.parts, plan.least)
        return [PostgresPart(low=low, high=high) for low, high in runs]

    # --- reading

    def read(self, plan: Plan, part: Part) -> Iterator[Columns]:
        """Yield a range, page by page."""
        assert isinstance(part, PostgresPart)
        if part.reset or part.missing:
            raise lost(self.place, part.missing or None)
        read = self._events if plan.table == "events" else self._jobs
        low, count = part.low, 0
        while True:
            found, last, size = read(plan, msgspec.structs.replace(part, low=low))
            if size:
                low, count = last, count + size
                yield found
            if size < PAGE:
                break
        if part.rows is not None and count < part.rows:
            raise lost(self.place, part.rows - count)

    def _events(self, plan: Plan, part: PostgresPart) -> tuple[Columns, int, int]:
        """Return the next events of a part. The server writes them as text, which Arrow reads faster than Python."""
        names = [name for name in plan.columns if name != "epoch"]
        written = ", ".join(_WRITTEN.get(name, f"e.{name}") for name in names)
        rows, values = self._source(part, plan.which)
        text = self._copied(
            f"SELECT {', '.join(filter(None, ['e.seq', written]))} FROM {rows} ORDER BY e.seq LIMIT {PAGE}", values
        )
        if not text:
            return {}, part.low, 0
        found = from_csv(text, ["seq", *names])
        seqs = found.pop("seq")
        if "epoch" in plan.columns:
            found["epoch"] = [part.epoch] * len(seqs)
        return found, int(seqs[-1].as_py()), len(seqs)

    def _jobs(self, plan: Plan, part: PostgresPart) -> tuple[Columns, int, int]:
        names = ", ".join(_JOB.get(name, name) for name in plan.columns)
        conditions, values = clauses(plan.which, _compared(_JOB), "%s")
        where = " AND ".join(["e.run > %s AND e.run <= %s", *conditions])
        rows = self._rows(
            f"SELECT e.run, {names} FROM holdfast.job e WHERE {where}"
            f" AND (expires_at_ms IS NULL OR expires_at_ms > holdfast.clock(NULL)) ORDER BY e.run LIMIT {PAGE}",
            [part.low, part.high, *values],
        )
        if not rows:
            return {}, part.low, 0
        runs, *columns = zip(*rows, strict=True)
        return dict(zip(plan.columns, columns, strict=True)), runs[-1], len(runs)

    def _source(self, part: PostgresPart, which: Sequence[Condition]) -> tuple[str, list[Any]]:
        """Return the events of a part that match, as SQL."""
        found, wanted = clauses(which, _compared(_EVENT), "%s")
        text, values = source(part)
        return " AND ".join([text, *found]), [*values, *wanted]

    # --- the connection

    def _rows(self, query: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[tuple[Any, ...]]:
        with self._cursor() as cursor:
            cursor.execute(self._named(query), values or None)
            return cursor.fetchall()

    def _copied(self, query: str, values: Sequence[Any]) -> bytes:
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
        return sql.rename(query, self.place.schema).encode()

    @contextmanager
    def _cursor(self) -> Iterator[psycopg.Cursor[tuple[Any, ...]]]:
        """Yield a cursor; errors of the server become ours."""
        try:
            with (self._connection or self._connect()).cursor(binary=True) as cursor:
                yield cursor
        except psycopg.errors.UndefinedTable as error:
            raise StoreError(
                f"{self.place} has no tables of Holdfast; check schema=, or run holdfast migrate"
            ) from error
        except psycopg.Error as error:
            raise translate(error, self.place) from error

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        self._connection = psycopg.connect(
            self.place.conninfo,
            autocommit=True,
            prepare_threshold=None,
            application_name="holdfast-scan",
            connect_timeout=max(1, round(self.place.patience)),
        )
        self._connection.read_only = True
        return self._connection

    def close(self) -> None:
        """Nothing is held open."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _compared(names: dict[str, str]) -> Callable[[str], str]:
    """Return how a column is spelled to be compared: texts by their bytes, whatever the database's collation."""
    return lambda name: f'({names.get(name, name)} COLLATE "C")' if name in _WORDS else names.get(name, name)
