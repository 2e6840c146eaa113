"""What a store shows: jobs, chains, queues, workers and the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ...core.bound import ASKED_AT_ONCE, EVENTS_AT_ONCE, MOST_COUNTED
from ...core.chain import ChainRef
from ...core.declaration import View
from ...core.event import before_end
from ...core.job import JobRecord, run_number
from ...core.policy import Policy
from ..batching import Gather
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
from .call import records
from .call.arguments import selection
from .call.array import numbers, texts
from .connection.caller import PostgresCaller, Rows
from .read.measure import PostgresMeasures
from .read.page import PostgresPages
from .read.placed import PostgresPlaced
from .scan.position import Position


class PostgresInspect:
    """Looking, of the contract."""

    def __init__(self, caller: PostgresCaller) -> None:
        self._caller = caller
        self.pages = PostgresPages(caller)
        self._placed = PostgresPlaced(caller)
        self._measures = PostgresMeasures(caller)
        self._runs: Gather[None, tuple[str, str, int], JobRecord | None] = Gather(self._get_runs, ASKED_AT_ONCE)

    async def get(self, queue: str, id: str, run: int | None = None) -> JobRecord | None:
        """Return the run that answers for an id, or one run of it."""
        if run is not None and self._caller.at_home():
            return await self._runs.ask(None, (queue, id, run_number(run)))
        if run is not None:
            return (await self._get_runs(None, [(queue, id, run_number(run))]))[0]
        return await self._caller.read(
            "job", lambda rows: records.record(rows[0]) if rows else None, queue=queue, id=id
        )

    async def _get_runs(self, kind: None, wanted: Sequence[tuple[str, str, int]]) -> list[JobRecord | None]:
        queues, ids, runs = zip(*wanted, strict=True)
        found = await self._caller.read(
            "runs", lambda rows: {row["ord"]: records.record(row) for row in rows},
            queues=texts(queues), ids=texts(ids), runs=numbers(runs),
        )  # fmt: skip
        return [found.get(number) for number in range(1, len(wanted) + 1)]

    async def look_up(self, ids: Sequence[str], queue: str | None = None) -> list[JobRecord]:
        """Return the run that answers for each of these ids."""
        return await self._caller.read(
            "look_up", lambda rows: [found for row in rows if (found := records.record(row))],
            ids=texts(ids), queue=queue,
        )  # fmt: skip

    async def jobs(self, which: Filter, *, limit: int = 50, cursor: str | None = None) -> JobPage:
        """Return jobs that match, newest first."""
        cursors = ListCursor("postgres", "jobs", which)
        if state := placed_state(which):
            found, place = await self._placed.page(which, state, limit, cursors.placed(cursor))
            return JobPage(jobs=found, cursor=cursors.after(place))
        found, below = await self.pages.matching(which, limit, cursors.run(cursor))
        return JobPage(jobs=found, cursor=None if below is None else cursors.text(str(below)))

    async def pending(self, queues: Sequence[str]) -> bool:
        """Return whether a job waits to be claimed, or, once started, for another attempt."""
        return bool(await self._caller.value("pending", queues=texts(queues)))

    async def queues(self) -> list[QueueInfo]:
        """Return every queue that the store knows."""
        return [records.queue(row) for row in await self._caller.query("queues")]

    async def sessions(self) -> list[SessionInfo]:
        """Return every worker that the store knows."""
        return [records.session(row) for row in await self._caller.query("sessions")]

    async def policies(self, queue: str) -> Mapping[str, Policy]:
        """Return the policy in force of every task of a queue."""
        rows = await self._caller.query("policies", queue=queue)
        return {row["task"]: records.policy(queue, row["task"], row["declared"], row["operator"]) for row in rows}

    async def events(
        self,
        position: str | None = None,
        *,
        queue: str | None = None,
        id: str | None = None,
        limit: int = EVENTS_AT_ONCE,
    ) -> EventPage:
        """Return events after a position; `None` is the beginning, `"end"` the end."""
        back = before_end(position)
        if back == 0:
            position = "end"
        elif back is not None:
            end = Position.parse((await self.events("end")).position)
            position = str(Position(end.epoch, max(0, end.number - back)))
            return msgspec.structs.replace(await self.events(position, queue=queue, id=id, limit=limit), gap=0)
        at = Position() if position in (None, "end") else Position.parse(position or "")
        wanted = 0 if position == "end" else limit
        page = await self._caller.read(
            "events", lambda rows: records.events(rows, position, limit), queue=queue, id=id, limit=wanted,
            **at.values(),
        )  # fmt: skip
        if page is None:
            page = msgspec.structs.replace(await self.events(None, queue=queue, id=id, limit=limit), reset=True)
        return page

    async def hold(self, reader: str, position: str | None) -> None:
        """Keep the events behind a position for a named reader; `None`: no more."""
        page = None if position is None else await self.events(position, limit=1)
        read = None if page is None else 0 if page.reset else Position.parse(position or "").whole
        await self._caller.value("hold_reader", reader=reader, number=read)

    async def chain(self, queue: str, id: str, run: int | None = None) -> ChainRecord | None:
        """Return the chain of a job: the one that it began, or belongs to."""
        return await self._caller.read(
            "chain", lambda rows: records.chain(rows[0]) if rows and records.record(rows[0]) else None,
            queue=queue, id=id, run=run_number(run),
        )  # fmt: skip

    async def chains(self, which: Filter, *, limit: int = 50, cursor: str | None = None) -> ChainPage:
        """Return chains of more than one job, newest first."""
        cursors = ListCursor("postgres", "chains", which)

        def page(rows: Rows) -> ChainPage:
            found = [records.chain(row) for row in rows[:limit]]
            return ChainPage(chains=found, cursor=cursors.text(str(found[-1].ref.run)) if len(rows) > limit else None)

        below = cursors.run(cursor)
        return await self._caller.read("chains", page, before=below, limit=limit + 1, **selection(which))

    async def blockers(self, queue: str, id: str, run: int) -> list[BlockerRecord]:
        """Return what a run waits for, or waited for."""
        return await self._caller.read(
            "blockers", lambda rows: [records.blocker(row) for row in rows], run=run_number(run)
        )

    async def dependants(self, queue: str, id: str, run: int | None = None, *, limit: int = 50) -> Dependants:
        """Return the jobs that wait for the chain of a job."""
        rows = await self._caller.by_index("dependants", queue=queue, id=id, run=run_number(run), limit=limit)
        jobs = [ChainRef(row["queue"], row["id"], row["run"]) for row in rows if row["run"] is not None]
        return Dependants(jobs=jobs, count=rows[0]["count"])

    async def layers(self, queue: str) -> View:
        """Return what workers declared of a queue and its tasks, and what operators set above it."""
        found = await self._caller.query("layers", queue=queue)
        return records.layers(queue, found[0] if found else None, await self._caller.query("policies", queue=queue))

    async def keys(self, queue: str, *, order: KeyOrder = "busiest", limit: int = 50) -> list[KeyInfo]:
        """Return keys of a queue in an order, with their limits."""
        return await self._measures.keys(queue, order, limit)

    async def count(self, which: Filter, *, most: int = MOST_COUNTED) -> JobCount:
        """Return how many jobs match, within bounds."""
        return await self.pages.count(which, most)

    async def measure(self) -> StoreMeasure:
        """Return what grows, waits and is late in the store."""
        return await self._measures.measure(await self.queues())
