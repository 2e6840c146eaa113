"""Looking: jobs, queues, workers and the event log."""

from __future__ import annotations

import json
from typing import Any

from ...core.chain import ChainRef
from ...core.event import Event
from ...core.job import JobRecord, run_number
from ...core.policy import Policy
from ...core.state import State
from ...errors import ConfigError
from ..contract import EventPage, Filter, JobPage, QueueInfo, SessionInfo
from ..row import before, decoded, event, known_session
from ..row import record as job_record
from .column import check
from .tx import Row, Tx


def get(tx: Tx, queue: str, id: str, run: int | None) -> JobRecord | None:
    """Return the run that answers for an id, or else its latest that is still kept; or a given run of it."""
    row = find(tx, queue, id, run)
    return None if row is None else record(tx, row)


def find(tx: Tx, queue: str, id: str, run: int | None) -> Row | None:
    """Return the row of the run that answers for an id, or else of its latest; or of a given run of it."""
    run = run_number(run)
    row = tx.row("job", "run", queue=queue, id=id, run=run) if run is not None else _held(tx, queue, id)
    if row is None or (row["queue"], row["id"]) != (queue, id) or _is_gone(tx, row):
        return None
    return row


def _held(tx: Tx, queue: str, id: str) -> Row | None:
    return tx.row("job", "held", queue=queue, id=id, now=tx.now) or tx.row(
        "job", "latest", queue=queue, id=id, now=tx.now
    )


def _is_gone(tx: Tx, row: Row) -> bool:
    return row["expires_at_ms"] is not None and row["expires_at_ms"] <= tx.now


def record(tx: Tx, row: Row) -> JobRecord:
    """Return a row as everybody else sees it."""
    check("job", row)
    return job_record(row, tx.now, _chain(tx, row))


def _chain(tx: Tx, row: Row) -> ChainRef | None:
    if row["chain"] is None:
        return None
    found = tx.run("chain", "ref", run=row["chain"]).fetchone()
    return ChainRef(*found) if found else None


def rows(tx: Tx, which: Filter, limit: int, cursor: str | None, *, requeued: bool) -> list[Row]:
    """Return rows that match, newest first. Without `requeued`, those that were started anew are left out."""
    chain = run_number(which.chain.run) if which.chain else None
    return tx.rows("job", "list", requeued=requeued, chain=chain, **conditions(tx, which, limit, cursor))


def conditions(tx: Tx, which: Filter, limit: int, cursor: str | None) -> dict[str, Any]:
    """Return a filter as the statements that list take it."""
    return {
        "before": before(cursor),
        "queue": which.queue,
        "states": json.dumps(which.states) if which.states else None,
        "task": which.task,
        "key": which.key,
        "ids": json.dumps(which.ids) if which.ids else None,
        "after": which.enqueued_after_ms,
        "until": which.enqueued_before_ms,
        "now": tx.now,
        "limit": limit,
    }


def jobs(tx: Tx, which: Filter, limit: int, cursor: str | None) -> JobPage:
    """Return jobs that match, newest first."""
    found = rows(tx, which, limit + 1, cursor, requeued=True)
    page = [record(tx, row) for row in found[:limit]]
    return JobPage(jobs=page, cursor=str(page[-1].run) if len(found) > limit else None)


def pending(tx: Tx, queue: str) -> bool:
    """True while a job waits to be claimed, or, once started, for another attempt."""
    row = tx.row("queue", "get", queue=queue)
    return (
        row is not None
        and not tx.queue(queue).settings.paused
        and bool(tx.value("job", "pending", queue=queue, now=tx.now))
    )


def queues(tx: Tx) -> list[QueueInfo]:
    """Return every queue with its counts and settings."""
    counts: dict[str, dict[str, int]] = {}
    for queue, state, count in tx.run("queue", "counts"):
        counts.setdefault(queue, {})[state] = count
    serving = dict(tx.run("session", "serving", now=tx.now).fetchall())
    names = [name for (name,) in tx.run("queue", "names").fetchall()]
    return [_queue(tx, name, counts.get(name, {}), serving.get(name, 0)) for name in names]


def _queue(tx: Tx, name: str, counts: dict[str, int], workers: int) -> QueueInfo:
    row = tx.row("queue", "get", queue=name)
    assert row is not None
    return QueueInfo(
        name=name,
        counts={state: counts.get(state, 0) for state in State},
        settings=tx.queue(name).settings,
        overrides=decoded(row["operator"], dict[str, Any]) or {},
        key_overrides=dict(tx.run("lane", "limits", queue=name).fetchall()),
        workers=workers,
        oldest_waiting_ms=tx.value("queue", "oldest", queue=name),
    )


def sessions(tx: Tx) -> list[SessionInfo]:
    """Return every worker that the store knows."""
    return [
        SessionInfo(
            session=known_session(id, info),
            started_at_ms=started,
            heard_at_ms=heard,
            expires_at_ms=expires,
            active=active,
            alive=not dead and expires > tx.now,
        )
        for id, info, started, heard, expires, dead, active in tx.run("session", "all")
    ]


def policies(tx: Tx, queue: str) -> dict[str, Policy]:
    """Return the policy in force of every task of a queue."""
    return dict(tx.queue(queue).policies) if tx.value("queue", "revision", queue=queue) is not None else {}


def events(tx: Tx, position: str | None, queue: str | None, id: str | None, limit: int) -> EventPage:
    """Return events after a position. In SQLite one writer commits at a time, so that order is commit order."""
    epoch = tx.value("job", "epoch")
    after, reset, gap = _after(tx, epoch, position)
    name = "events" if queue is None else "events_of_queue" if id is None else "events_of_job"
    end = max(after, tx.value("job", "last_event") or 0)
    found = tx.rows("job", name, after=after, queue=queue, id=id, limit=limit)
    # Everything up to the end was looked at, also what is not of this queue: trimming it later is no gap.
    last = found[-1]["seq"] if len(found) == limit else max([end, *(row["seq"] for row in found[-1:])])
    events = [_event(row, f"{epoch}:{row['seq']}") for row in found]
    return EventPage(events=events, position=f"{epoch}:{last}", gap=gap, reset=reset)


def _event(row: Row, position: str) -> Event:
    check("event", row)
    return event(row, position)


def _after(tx: Tx, epoch: str, position: str | None) -> tuple[int, bool, int]:
    """Return where to read on, whether the log is another one, and how many events were trimmed unread."""
    if position == "end":
        return tx.value("job", "last_event") or 0, False, 0
    if position is None:
        return 0, False, 0
    theirs, _, seq = position.partition(":")
    if not seq.isdigit():
        raise ConfigError(f"position {position!r} is not one that the event log gave")
    if theirs != epoch or int(seq) > (tx.value("job", "newest") or 0):
        return 0, True, 0  # another log, or this one as a backup had it, from before the position was made
    first = tx.value("job", "first_event")
    gap = max(0, first - int(seq) - 1) if first is not None else 0
    return int(seq), False, gap


def read_to(tx: Tx, position: str) -> int:
    """Return the number of the last event that a reader at this position has read; 0 when its log was another."""
    return _after(tx, tx.value("job", "epoch"), position)[0]
