"""Whole tables out of the server, in pages, each with a snapshot of its own: nothing holds up a vacuum.

Which events lie between two positions does not depend on the snapshot that reads them: a position names the
transactions that were open when it was made, and leaves their events to a later one (`look.Position`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import psycopg

from ...errors import StoreError
from ..scan import Columns, Condition, Part, Plan, Table, clauses, lost, shares
from ..text import from_csv
from . import sql
from .array import numbers, texts
from .connection import Place, translate
from .look import Position
from .span import Key, Log, Nth, PostgresPart, cut, end_of, ranges

PAGE = 20_000
_EVENT = {"sequence": "seq", "epoch": "(SELECT value FROM holdfast.meta WHERE name = 'epoch')"}
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
_NAMES: dict[Table, dict[str, str]] = {"events": _EVENT, "jobs": _JOB}
"""Columns that the tables call something else."""
_WRITTEN = {"sequence": "seq AS sequence", "payload": "encode(payload, 'hex')"}
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
        return str(end_of(self._log()))

    def reach(self, after: str | None, limit: int, which: Sequence[Condition] = (), upto: str | None = None) -> str:
        """Return a position with at most `limit` matching events before it."""
        log = self._log()
        at = self._position(after, log) or Position(f"{log.epoch}:0:0:0")
        end = (self._position(upto, log) if upto is not None else None) or end_of(log)
        if limit < 1:
            return str(at)
        left = limit
        for part in ranges(at, end):
            found = self._nth(part, which, left)
            if isinstance(found, Nth):
                return str(cut(at, end, found))
            left -= found
        return str(end)

    def _nth(self, part: PostgresPart, which: Sequence[Condition], number: int) -> Nth | int:
        """Return the place of the nth row of a part, or how many there are when there are fewer."""
        where, values = self._where("events", part, which)
        order = "OVER (ORDER BY e.xid, e.seq ROWS UNBOUNDED PRECEDING)"
        ((count, row),) = self._rows(
            f"SELECT count(*), max(ARRAY[xid::text, seq::text, seen::text]) FILTER (WHERE n = %s) FROM ("
            f"SELECT e.xid, e.seq, row_number() {order} AS n, max(e.seq) {order} AS seen"
            f" FROM holdfast.event e WHERE {where} ORDER BY e.xid, e.seq LIMIT %s) numbered",
            [number, *values, number],
        )
        return Nth(*map(int, row)) if row else int(count)

    def _log(self) -> Log:
        ((epoch, trimmed, newest, snapshot, last),) = self._rows(
            "SELECT (SELECT value FROM holdfast.meta WHERE name = 'epoch'),"
            " (SELECT value::bigint FROM holdfast.meta WHERE name = 'trimmed'),"
            " (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM holdfast.event_seq),"
            " pg_current_snapshot()::text,"
            " (SELECT xid::text || '.' || seq FROM holdfast.event WHERE xid < (SELECT CASE WHEN pg_is_in_recovery()"
            " THEN pg_snapshot_xmin(pg_current_snapshot()) ELSE '9223372036854775807'::xid8 END)"  # as in `look.sql`
            " ORDER BY xid DESC, seq DESC LIMIT 1)"
        )
        in_flight = [int(xid) for xid in snapshot.split(":")[2].split(",") if xid]
        xid, _, seq = (last or "0.0").partition(".")
        return Log(epoch, trimmed, newest, in_flight, (int(xid), int(seq)))

    def _position(self, text: str | None, log: Log) -> Position | None:
        """Return a position as a part of this log; `None` when it is of another."""
        if text is None:
            return Position(f"{log.epoch}:0:0:{log.trimmed}")
        at = Position(text)
        return at if at.epoch == log.epoch and at.seen <= log.newest else None

    # --- planning

    def takes(self, table: Table, condition: Condition) -> bool:
        """True for every column of the table itself."""
        return table == "events" or condition.column not in _PLAIN

    def plan(self, plan: Plan) -> list[PostgresPart]:
        """Return ranges of the log, or of runs."""
        return self._plan_events(plan) if plan.table == "events" else self._plan_jobs(plan)

    def _plan_events(self, plan: Plan) -> list[PostgresPart]:
        log = self._log()
        known = self._position(plan.after, log)
        upto = self._position(plan.upto, log) if plan.upto is not None else end_of(log)
        gap = [PostgresPart(reset=True)] if known is None or upto is None else []
        if upto is None:
            return gap
        after = known or Position(f"{log.epoch}:0:0:0")
        if plan.after is not None and known:
            missing = max(0, min(log.trimmed, upto.seen) - after.seen) + self._lost(after, upto)
            gap += [PostgresPart(missing=missing)] if missing else []
        parts = [part for each in ranges(after, upto) for part in self._split(plan, each)]
        return gap + [part for part in parts if part.rows]

    def _lost(self, after: Position, upto: Position) -> int:
        """Return how many transactions that were late at the first position were trimmed unread, as `look.sql` does."""
        ended = {xid: seq for xid, seq in after.open.items() if xid not in upto.open}
        if not ended:
            return 0
        ((count,),) = self._rows(
            "SELECT count(*) FROM unnest(%s::text[], %s::bigint[]) AS s(xid, seq)"
            " CROSS JOIN (SELECT value::xid8 AS xid FROM holdfast.meta WHERE name = 'trimmed_xid') AS t"
            " WHERE s.xid::xid8 <= t.xid AND pg_visible_in_snapshot(s.xid::xid8, pg_current_snapshot())"
            " AND coalesce(pg_xact_status(s.xid::xid8), 'committed') = 'committed'"
            " AND (s.xid::xid8 = t.xid OR NOT EXISTS ("
            "SELECT 1 FROM holdfast.event e WHERE e.xid = s.xid::xid8 AND e.seq > s.seq))",
            _pairs(ended),
        )
        return int(count)

    def _count(self, plan: Plan, part: PostgresPart) -> int:
        where, values = self._where("events", part, plan.which)
        ((count,),) = self._rows(f"SELECT count(*) FROM holdfast.event e WHERE {where}", values)
        return int(count)

    def _split(self, plan: Plan, whole: PostgresPart) -> list[PostgresPart]:
        count = self._count(plan, whole)
        size = max(plan.least, -(-count // max(1, plan.parts)))
        if count <= size:
            return [msgspec.structs.replace(whole, rows=count)]
        where, values = self._where("events", whole, plan.which)
        cuts = self._rows(
            "SELECT xid::text, seq FROM (SELECT e.xid, e.seq, row_number() OVER (ORDER BY e.xid, e.seq) AS n"
            f" FROM holdfast.event e WHERE {where}) numbered WHERE n %% %s = 0 AND n < %s ORDER BY n",
            [*values, size, count],
        )
        edges = [whole.low, *((int(xid), seq) for xid, seq in cuts), whole.high]
        rows = [size] * len(cuts) + [count - size * len(cuts)]
        return [
            msgspec.structs.replace(whole, low=low, high=high, rows=number)
            for low, high, number in zip(edges, edges[1:], rows, strict=False)
        ]

    def _plan_jobs(self, plan: Plan) -> list[PostgresPart]:
        ((first, last),) = self._rows("SELECT min(run), max(run) FROM holdfast.job")
        if first is None:
            return []
        runs = shares(first - 1, last, plan.parts, plan.least)
        return [PostgresPart(low=(0, low), high=(0, high)) for low, high in runs]

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

    def _events(self, plan: Plan, part: PostgresPart) -> tuple[Columns, Key, int]:
        """Return the next events of a part. The server writes them as text, which Arrow reads faster than Python."""
        names = [name for name in plan.columns if name != "epoch"]
        written = ", ".join(_WRITTEN.get(name, name) for name in names)
        where, values = self._where("events", part, plan.which)
        text = self._copied(
            f"SELECT e.xid, e.seq, {written} FROM holdfast.event e WHERE {where} ORDER BY e.xid, e.seq LIMIT {PAGE}",
            values,
        )
        if not text:
            return {}, part.low, 0
        found = from_csv(text, ["xid", "seq", *names])
        xids, seqs = found.pop("xid"), found.pop("seq")
        if "epoch" in plan.columns:
            found["epoch"] = [part.epoch] * len(xids)
        return found, (int(xids[-1].as_py()), int(seqs[-1].as_py())), len(xids)

    def _jobs(self, plan: Plan, part: PostgresPart) -> tuple[Columns, Key, int]:
        names = ", ".join(_JOB.get(name, name) for name in plan.columns)
        where, values = self._where("jobs", part, plan.which)
        rows = self._rows(
            f"SELECT e.run, {names} FROM holdfast.job e WHERE {where}"
            f" AND (expires_at_ms IS NULL OR expires_at_ms > holdfast.clock(NULL)) ORDER BY e.run LIMIT {PAGE}",
            values,
        )
        if not rows:
            return {}, part.low, 0
        runs, *columns = zip(*rows, strict=True)
        return dict(zip(plan.columns, columns, strict=True)), (0, runs[-1]), len(runs)

    def _where(self, table: Table, part: PostgresPart, which: Sequence[Condition]) -> tuple[str, list[Any]]:
        found, values = clauses(which, _compared(_NAMES[table]), "%s")
        if table == "jobs":
            return " AND ".join(["e.run > %s AND e.run <= %s", *found]), [part.low[1], part.high[1], *values]
        above: list[Any] = [str(part.low[0]), part.low[1], str(part.high[0]), part.high[1]]
        within = "(e.xid, e.seq) > (%s::xid8, %s::bigint) AND (e.xid, e.seq) <= (%s::xid8, %s::bigint)"
        listed = (
            "EXISTS (SELECT 1 FROM unnest(%s::text[], %s::bigint[]) o(xid, seq)"
            " WHERE o.xid::xid8 = e.xid AND e.seq > o.seq)"
        )
        if part.late is not None:
            within += f" AND e.xid = ANY (%s::text[]::xid8[]) AND {listed}"
            above += [texts([str(xid) for xid in part.late]), *_pairs(part.late)]
        if part.open:
            within += f" AND NOT {listed}"
            above += _pairs(part.open)
        return " AND ".join([within, *found]), [*above, *values]

    # --- the connection

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
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


def _pairs(open: dict[int, int]) -> list[Any]:
    return [texts([str(xid) for xid in open]), numbers(list(open.values()))]
