"""One piece of work inside a transaction: its time, its statements, and what it leaves to do after."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar, TypeVarTuple

import msgspec

from ...core import action
from ...core.action import Action
from ...core.bound import KEPT_FOR_WATCHERS_MS, MOST_WOKEN
from ...core.chain import BlockerRef
from ...core.job import ErrorRecord
from ...core.limit import QueueSettings
from ...core.policy import Policy
from ...core.state import FINISHED, State
from ..contract import Finished, Lease
from ..rows import readable_adjustment, readable_policy, readable_settings
from .notify import MOST_RESULT_BYTES, After, notify, wake

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
_EMPTY = Policy()
_SETS_ENVELOPE = frozenset({"enqueue", "update", "requeue"})
"""Transitions whose events have the envelope of the job."""


class QueueView(msgspec.Struct, frozen=True):
    """A queue's settings and policies at one revision, decoded."""

    revision: int
    settings: QueueSettings
    policies: dict[str, Policy]
    limited: bool
    """Its settings limit how many jobs start."""
    kept: dict[State, dict[str, int]]
    """By the state in which runs end: for how long they are kept, as the statements that end one take it."""


Row = dict[str, Any]
"""A row by column name. Which type each column has, `repair.columns` knows, and checks where it matters."""
Value = str | bytes | float | None
"""What a statement takes as a parameter."""
Cache = dict[str, QueueView]


class Statements(Protocol):
    """A connection, as far as transitions use it."""

    def execute(self, statement: str, values: Any = ..., /) -> sqlite3.Cursor:
        """Run a statement."""

    def executemany(self, statement: str, rows: Iterable[Any], /) -> sqlite3.Cursor:
        """Run a statement for each of the rows."""


class Tx:
    """One transaction, as transitions use it."""

    __slots__ = ("_after", "_cache", "_connection", "_sql", "_told", "_views", "actor", "dependants", "now")

    def __init__(
        self,
        connection: Statements,
        sql: dict[str, dict[str, str]],
        now: int,
        cache: Cache,
        after: After,
    ) -> None:
        self._connection = connection
        self._sql = sql
        self._cache = cache
        self._after = after
        self._views: dict[str, QueueView] = {}
        self._told: dict[str, list[Finished]] = {}
        """By address: what its listener is told after the commit."""
        self.now = now
        self.actor: str | None = None
        """Who asked for it, of an action (`acting`)."""
        self.dependants: dict[int, tuple[int, BlockerRef | None]] = {}
        """Blocked runs of which some blockers are done: how many, and one that failed; for `unblock_dependants`."""

    # --- statements

    def run(self, file: str, name: str, **values: Any) -> sqlite3.Cursor:
        """Run one statement of one file."""
        return self._connection.execute(self._sql[file][name], values)

    def run_many(self, file: str, name: str, rows: Iterable[Any]) -> int:
        """Run one statement for many rows; return how many rows it changed."""
        return self._connection.executemany(self._sql[file][name], rows).rowcount

    def value(self, file: str, name: str, **values: Any) -> Any:
        """Return the first column of the first row, or `None`."""
        row = self._connection.execute(self._sql[file][name], values).fetchone()
        return None if row is None else row[0]

    def row(self, file: str, name: str, **values: Any) -> Row | None:
        """Return the first row by column name."""
        cursor = self._connection.execute(self._sql[file][name], values)
        row = cursor.fetchone()
        return None if row is None else named(cursor, row)

    def rows(self, file: str, name: str, **values: Any) -> list[Row]:
        """Return every row by column name."""
        cursor = self._connection.execute(self._sql[file][name], values)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    # --- what every transition needs

    def job(self, run: int) -> Row | None:
        """Return a run's row."""
        return self.row("job", "get", run=run)

    def next_runs(self, count: int) -> int:
        """Return the first of so many new run numbers."""
        last: int = self.value("queue", "number", n=count)
        return last - count + 1

    def moved(self, queue: str, was: str | None, state: str | None, count: int = 1) -> None:
        """Count so many jobs of a queue from one state to another; `None` is no state."""
        if not count or was == state:
            return
        statement = self._sql["queue"]["count"]
        if was is not None:
            self._connection.execute(statement, (queue, was, -count))
        if state is not None:
            self._connection.execute(statement, (queue, state, count))

    def append(
        self,
        transition: str,
        runs: Sequence[int],
        *,
        cause: str | None = None,
        ran: bool = False,
        error: ErrorRecord | None = None,
        payload: bool = False,
        successor: bool = False,
    ) -> None:
        """Append the event of each run. `ran` says that an attempt ended with it.

        With `successor`, the event tells of the run's successor, and has the envelope of that.
        """
        self.run(
            "event",
            "append",
            now=self.now,
            transition=transition,
            cause=cause,
            ran=ran,
            error_type=error.type if error else None,
            error_signature=error.signature if error else None,
            payload=payload,
            envelope="successor" if successor else "own" if transition in _SETS_ENVELOPE else None,
            actor=None if self.actor is None else action.attributed(self.actor, transition, cause),
            runs=json.dumps(runs),
        )

    def append_action(self, queue: str, done: Action) -> None:
        """Append the event of an action that is no transition."""
        self.run(
            "event", "append_action", now=self.now, queue=queue, id=done.id, run=done.run, cause=done.name,
            task=done.task, worker=done.worker, key=done.key, message=done.message, actor=self.actor,
        )  # fmt: skip

    def queue(self, name: str) -> QueueView:
        """Return the queue's settings and policies as they stand in this transaction."""
        row = self.run("queue", "revision", queue=name).fetchone()
        if row is None:
            self.run("queue", "create", queue=name)
            row = (0,)
        view = self._cache.get(name)
        if view is None or view.revision != row[0]:
            view = self._cache[name] = self._load(name)
        return view

    def known_queue(self, name: str) -> QueueView:
        """Return the queue's settings and policies, looked up once for this transaction."""
        view = self._views.get(name)
        if view is None:
            view = self._views[name] = self.queue(name)
        return view

    def policy(self, queue: str, task: str | None) -> Policy:
        """Return what was declared of a task, or the library's defaults."""
        return self.queue(queue).policies.get(task or "", _EMPTY)

    def _load(self, name: str) -> QueueView:
        row = self.row("queue", "get", queue=name)
        assert row is not None
        found = self.run("queue", "policies", queue=name).fetchall()
        policies = {task: readable_policy(name, task, blob) for task, _, blob in found}
        for task, operator in self.run("queue", "adjustments", queue=name):
            policies[task] = readable_adjustment(name, task, policies.get(task, _EMPTY), operator)
        settings = readable_settings(name, row["declared"], row["operator"])
        kept = {
            state: {"queue_ttl": settings.result_ttl_ms, "kept": settings.retention.kept_ms(state)}
            for state in FINISHED
        }
        return QueueView(row["revision"], settings, policies, settings.limited, kept)

    # --- what happens after the commit

    def wake(self, queue: str, jobs: int) -> None:
        """Wake enough parked workers for so many jobs, and no more."""
        if jobs <= 0:
            return
        for session, room, address in self.run("session", "parked", queue=queue, limit=MOST_WOKEN).fetchall():
            self.run("session", "park", session=session, room=None)
            if address:
                self._after.append(partial(wake, address))
            jobs -= room
            if jobs <= 0:
                return

    def wake_for(self, queue: str, run_at: int) -> None:
        """Wake a worker for a job that may be claimed now, or tell one that the next scheduled job comes earlier."""
        if run_at <= self.now or self.value("claim", "next_scheduled", queue=queue) == run_at:
            self.wake(queue, 1)

    def wake_session(self, session: str) -> None:
        """Wake one worker, because there is something to tell it."""
        if address := self.value("session", "address", session=session):
            self._after.append(partial(wake, address))

    def watch(self, queue: str, watched: Sequence[tuple[str, int, str]]) -> None:
        """Let addresses hear when runs of a queue end, each given by id, run and address."""
        self.run_many("session", "watch", [(queue, *each) for each in watched])

    def unwatch(self, queue: str, id: str, run: int, address: str) -> None:
        """Let the address hear no more of a run."""
        self.run("session", "unwatch", queue=queue, id=id, run=run, address=address)

    def notify_watchers(self, row: Mapping[str, Any], state: State, result: bytes | None = None) -> None:
        """Tell the watchers of a run, and of those that it absorbed, that it is over.

        The result is told to those who watch the run itself.
        """
        queue, id, run = row["queue"], row["id"], row["run"]
        last = max(run, row["absorbed_to"] or run)
        found = self.run("session", "watchers", queue=queue, id=id, first=run, last=last).fetchall()
        self._keep_for_watchers([run] if found else [])
        for watched, address in found:
            self._tell(address, Finished(queue, id, watched, state, _told(result) if watched == run else None))

    def notify_all_watchers(self, results: Mapping[int, bytes], state: State) -> None:
        """The same for many runs, given with their results, that have absorbed no other."""
        found = self.run("session", "watchers_among", runs=json.dumps(list(results))).fetchall()
        self._keep_for_watchers([run for _, _, run, _ in found])
        for queue, id, run, address in found:
            self._tell(address, Finished(queue, id, run, state, _told(results[run])))

    def _keep_for_watchers(self, runs: Sequence[int]) -> None:
        """Keep the results of runs for a moment, even those that are not kept for others: watchers must find them."""
        if runs:
            self.run("session", "keep_for_watchers", runs=json.dumps(runs), until=self.now + KEPT_FOR_WATCHERS_MS)

    def notify_progress(self, lease: Lease) -> None:
        """Tell the watchers of a run that it got further."""
        for run, address in self.run("session", "watching", queue=lease.queue, id=lease.id, run=lease.run).fetchall():
            self._tell(address, Finished(lease.queue, lease.id, run, State.ACTIVE))

    def _tell(self, address: str, finished: Finished) -> None:
        told = self._told.get(address)
        if told is None:
            told = self._told[address] = []
            self._after.append(partial(notify, address, told))
        told.append(finished)


def _told(result: bytes | None) -> bytes | None:
    """Return a result that is short enough to be told."""
    return result if result is not None and len(result) <= MOST_RESULT_BYTES else None


def acting(work: Callable[[Tx, *Ts], T]) -> Callable[[Tx, *Ts], T]:
    """Return the work as that of whoever acts now: the transaction may be in another thread, and later."""
    who = action.actor()

    def act(tx: Tx, *values: *Ts) -> T:
        tx.actor = who
        return work(tx, *values)

    return act


def named(cursor: sqlite3.Cursor, row: Sequence[Any]) -> Row:
    """Return a row by column name."""
    return {column[0]: value for column, value in zip(cursor.description, row, strict=True)}
