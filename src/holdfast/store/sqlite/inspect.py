"""Inspecting: jobs, chains, queues, workers and the event log. Nothing of this changes a job."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ...core.bound import EVENTS_AT_ONCE, MOST_COUNTED
from ...core.chain import OPEN, BlockerRef, ChainRef
from ...core.declaration import View
from ...core.job import ErrorRecord, JobRecord, run_number
from ...core.policy import Policy
from ...core.state import State
from ..batching import LoopGather
from ..contract import (
    BlockerRecord,
    ChainPage,
    ChainRecord,
    Dependants,
    EventPage,
    Filter,
    JobCount,
    JobPage,
    KeyInfo,
    KeyOrder,
    QueueInfo,
    SessionInfo,
    StoreMeasure,
)
from ..cursor import ListCursor
from ..pages import placed_state
from ..rows import decoded, known_command, known_session
from . import event_log, query
from .connection.at_once import SMALL
from .database import Database
from .read import measure, page
from .read.placed import placed
from .transition import chain
from .tx import Row, Tx

MOST_LOOKS = 100
"""Looks of many callers that see one state of the store."""


class SqliteInspect:
    """Read jobs, chains, queues, workers and events."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._single = LoopGather(self._get_all, MOST_LOOKS)
        """What many callers look at, at the same time."""

    async def get(self, queue: str, id: str, run: int | None = None) -> JobRecord | None:
        """Return the run that answers for an id, or one run of it."""
        return await self._single.ask("get", (queue, id, run))

    async def _get_all(self, kind: str, asked: Sequence[tuple[str, str, int | None]]) -> list[JobRecord | None]:
        return await self._database.read(query.get_all, asked, small=len(asked) <= SMALL)

    async def look_up(self, ids: Sequence[str], queue: str | None = None) -> list[JobRecord]:
        """Return the run that answers for each of these ids; without a queue, in all queues that have it."""
        return await self._database.read(_look_up, ids, queue)

    async def jobs(self, which: Filter, *, limit: int = 50, cursor: str | None = None) -> JobPage:
        """Return jobs that match, newest first."""
        return await self._database.read(_jobs, which, limit, cursor)

    async def pending(self, queues: Sequence[str]) -> bool:
        """Return whether a job of these queues waits to be claimed, or, once started, for another attempt."""
        return await self._database.read(lambda tx: any(_pending(tx, queue) for queue in queues))

    async def queues(self) -> list[QueueInfo]:
        """Return every queue with its counts and settings."""
        return await self._database.read(queues)

    async def sessions(self) -> list[SessionInfo]:
        """Return every worker that the store knows."""
        return await self._database.read(_sessions)

    async def policies(self, queue: str) -> Mapping[str, Policy]:
        """Return the policy in force of every task of a queue."""
        return await self._database.read(_policies, queue)

    async def events(
        self,
        position: str | None = None,
        *,
        queue: str | None = None,
        id: str | None = None,
        limit: int = EVENTS_AT_ONCE,
    ) -> EventPage:
        """Return events after a position."""
        return await self._database.read(event_log.events, position, queue, id, limit)

    async def hold(self, reader: str, position: str | None) -> None:
        """Keep the events behind a position for a named reader; with `None`, no longer."""
        await self._database.write(event_log.keep_events, reader, position)

    async def chain(self, queue: str, id: str, run: int | None = None) -> ChainRecord | None:
        """Return the chain of a job: the one that it began, or belongs to."""
        return await self._database.read(_chain, queue, id, run, small=True)

    async def chains(self, which: Filter, *, limit: int = 50, cursor: str | None = None) -> ChainPage:
        """Return chains of more than one job, newest first."""
        return await self._database.read(_chains, which, limit, cursor)

    async def blockers(self, queue: str, id: str, run: int) -> list[BlockerRecord]:
        """Return what a run waits for, or waited for, in the order given."""
        return await self._database.read(_blockers, run)

    async def dependants(self, queue: str, id: str, run: int | None = None, *, limit: int = 50) -> Dependants:
        """Return the jobs that wait for the chain of a job."""
        return await self._database.read(measure.dependants, queue, id, run, limit)

    async def layers(self, queue: str) -> View:
        """Return what workers declared of a queue and its tasks, and what operators set above it."""
        return await self._database.read(measure.layers, queue)

    async def keys(self, queue: str, *, order: KeyOrder = "busiest", limit: int = 50) -> list[KeyInfo]:
        """Return keys of a queue in an order, with their limits."""
        return await self._database.read(measure.keys, queue, order, limit)

    async def count(self, which: Filter, *, most: int = MOST_COUNTED) -> JobCount:
        """Return how many jobs match, within bounds."""
        return await self._database.read(page.count, which, most)

    async def measure(self) -> StoreMeasure:
        """Return what grows, waits and is late in the store."""
        return await self._database.read(lambda tx: measure.measure(tx, queues(tx)))


def _look_up(tx: Tx, ids: Sequence[str], queue: str | None) -> list[JobRecord]:
    names = [queue] if queue is not None else sorted(name for (name,) in tx.run("queue", "names").fetchall())
    found = (query.get(tx, name, id, None) for id in ids for name in names)
    return [job for job in found if job is not None]


def _jobs(tx: Tx, which: Filter, limit: int, cursor: str | None) -> JobPage:
    cursors = ListCursor("sqlite", "jobs", which)
    if state := placed_state(which):
        found, place = placed(tx, which, state, limit, cursors.placed(cursor))
        return JobPage(jobs=[query.record(tx, row) for row in found], cursor=cursors.after(place))
    found, below = page.matching(tx, which, limit, cursors.run(cursor))
    jobs = [query.record(tx, row) for row in found]
    return JobPage(jobs=jobs, cursor=None if below is None else cursors.text(str(below)))


def _pending(tx: Tx, queue: str) -> bool:
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
        counts={state: max(0, counts.get(state, 0)) for state in State},
        settings=tx.queue(name).settings,
        overrides=decoded(row["operator"], dict[str, Any]) or {},
        key_overrides=dict(tx.run("lane", "limits", queue=name).fetchall()),
        workers=workers,
        oldest_waiting_ms=_oldest(tx, name),
    )


def _oldest(tx: Tx, queue: str) -> int | None:
    """Return when the job that comes first, of each priority, of those with a key and of suspects, became claimable."""
    found = [tx.value("queue", "first_keyed", queue=queue)]
    for name in ("first_plain", "first_suspect"):
        below = math.inf
        while row := tx.run("queue", name, queue=queue, below=below).fetchone():
            below, instant = row
            found.append(instant)
    return min((instant for instant in found if instant is not None), default=None)


def _sessions(tx: Tx) -> list[SessionInfo]:
    return [
        SessionInfo(
            session=known_session(id, info),
            started_at_ms=started,
            heard_at_ms=heard,
            expires_at_ms=expires,
            active=active,
            alive=not dead and expires > tx.now,
            memory_bytes=memory,
            command=known_command(command),
        )
        for id, info, started, heard, expires, dead, active, memory, command in tx.run("session", "all")
    ]


def _policies(tx: Tx, queue: str) -> dict[str, Policy]:
    return dict(tx.queue(queue).policies) if tx.value("queue", "revision", queue=queue) is not None else {}


def _chain(tx: Tx, queue: str, id: str, run: int | None) -> ChainRecord | None:
    row = chain.first_of(tx, queue, id, run)
    return None if row is None else _chain_record(tx, row)


def _chains(tx: Tx, which: Filter, limit: int, cursor: str | None) -> ChainPage:
    cursors = ListCursor("sqlite", "chains", which)
    values = {**page.conditions(tx, which), "before": cursors.run(cursor), "limit": limit + 1}
    found = tx.rows("chain", "list", **values)
    chains = [_chain_record(tx, row) for row in found[:limit]]
    return ChainPage(chains=chains, cursor=cursors.text(str(chains[-1].ref.run)) if len(found) > limit else None)


def _chain_record(tx: Tx, first: Row) -> ChainRecord:
    """Return a chain, by the row of its first job, as the record that the contract promises."""
    last = chain.current(tx, first)
    own = first["chain_state"] is None
    state = State(last["state"] if own or first["chain_state"] == OPEN else first["chain_state"])
    return ChainRecord(
        ref=ChainRef(first["queue"], first["id"], first["run"]),
        task=first["task"],
        state=state,
        position=last["position"],
        current=ChainRef(last["queue"], last["id"], last["run"]),
        enqueued_at_ms=first["enqueued_at_ms"],
        finished_at_ms=first["finished_at_ms"] if own else first["ended_at_ms"],
        result=first["result"],
        error=decoded(first["error"], ErrorRecord) if state is State.FAILED else None,
        expires_at_ms=first["expires_at_ms"],
    )


def _blockers(tx: Tx, run: int) -> list[BlockerRecord]:
    return [
        BlockerRecord(
            ref=BlockerRef(row["queue"], row["id"], row["blocker"]),
            state=State(row["state"]) if row["state"] not in (None, "abandoned") else None,
            queue=row["last_queue"],
            task=row["last_task"],
            result=row["result"],
            error=decoded(row["error"], ErrorRecord),
        )
        for row in tx.rows("unblock", "all", run=run_number(run))
    ]
