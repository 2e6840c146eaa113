"""What a store shows: jobs, queues, workers, the log, and its own health."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ...core.job import JobRecord, run_number
from ...core.policy import Policy
from ..contract import (
    BlockerRecord,
    ChainPage,
    ChainRecord,
    Corrupt,
    EventPage,
    Filter,
    Finding,
    JobPage,
    QueueInfo,
    SessionInfo,
)
from ..gather import Gather
from ..row import before, set_aside, suspected
from . import doctor, look
from .array import numbers, texts
from .calling import Calling, Rows
from .position import Position

MOST_AT_ONCE = 500
"""So much of what many ask at the same time goes in one call."""


class Looking(Calling):
    """The part of a store that changes nothing."""

    def __init__(self, url: Any, *, clock: Callable[[], int] | None = None) -> None:
        super().__init__(url, clock=clock)
        self._runs: Gather[None, tuple[str, str, int], JobRecord | None] = Gather(self._get_runs, MOST_AT_ONCE)

    async def get(self, queue: str, id: str, run: int | None = None) -> JobRecord | None:
        if run is not None and self._home is asyncio.get_running_loop():
            return await self._runs.ask(None, (queue, id, run_number(run)))
        if run is not None:
            return (await self._get_runs(None, [(queue, id, run_number(run))]))[0]
        return await self._shown("get", lambda rows: look.record(rows[0]) if rows else None, queue=queue, id=id)

    async def _get_runs(self, kind: None, wanted: Sequence[tuple[str, str, int]]) -> list[JobRecord | None]:
        queues, ids, runs = zip(*wanted, strict=True)
        found = await self._shown(
            "runs", lambda rows: {row["ord"]: look.record(row) for row in rows},
            queues=texts(queues), ids=texts(ids), runs=numbers(runs),
        )  # fmt: skip
        return [found.get(number) for number in range(1, len(wanted) + 1)]

    async def jobs(self, which: Filter, *, limit: int = 50, cursor: str | None = None) -> JobPage:
        values = {**look.filter_values(which), "chain": look.chain_value(which)}

        def page(rows: Rows) -> JobPage:
            found = [record for row in rows[:limit] if (record := look.record(row))]
            return JobPage(jobs=found, cursor=str(found[-1].run) if len(rows) > limit else None)

        return await self._shown("list", page, before=before(cursor), limit=limit + 1, **values)

    async def pending(self, queues: Sequence[str]) -> bool:
        rows = await self._look("pending", queues=texts(queues))
        return bool(rows[0]["exists"])

    async def queues(self) -> list[QueueInfo]:
        return [look.queue(row) for row in await self._look("queues")]

    async def sessions(self) -> list[SessionInfo]:
        return [look.session(row) for row in await self._look("sessions")]

    async def policies(self, queue: str) -> Mapping[str, Policy]:
        rows = await self._look("policies", queue=queue)
        return {row["task"]: look.policy(queue, row["task"], row["declared"], row["operator"]) for row in rows}

    async def events(
        self, position: str | None = None, *, queue: str | None = None, id: str | None = None, limit: int = 1000
    ) -> EventPage:
        at = Position() if position in (None, "end") else Position.parse(position or "")
        wanted = 0 if position == "end" else limit
        page = await self._shown(
            "events", lambda rows: look.events(rows, position, limit), queue=queue, id=id, limit=wanted, **at.values()
        )
        if page is None:
            page = msgspec.structs.replace(await self.events(None, queue=queue, id=id, limit=limit), reset=True)
        return page

    async def chain(self, queue: str, id: str, run: int | None = None) -> ChainRecord | None:
        return await self._shown(
            "chain", lambda rows: look.chain(rows[0]) if rows and look.record(rows[0]) else None,
            queue=queue, id=id, run=run_number(run),
        )  # fmt: skip

    async def chains(self, which: Filter, *, limit: int = 50, cursor: str | None = None) -> ChainPage:
        def page(rows: Rows) -> ChainPage:
            found = [look.chain(row) for row in rows[:limit]]
            return ChainPage(chains=found, cursor=str(found[-1].ref.run) if len(rows) > limit else None)

        return await self._shown("chains", page, before=before(cursor), limit=limit + 1, **look.filter_values(which))

    async def blockers(self, queue: str, id: str, run: int) -> list[BlockerRecord]:
        return await self._shown("blockers", lambda rows: [look.blocker(row) for row in rows], run=run_number(run))

    async def hold(self, reader: str, position: str | None) -> None:
        page = None if position is None else await self.events(position, limit=1)
        read = None if page is None else 0 if page.reset else Position.parse(position or "").whole
        await self._value("SELECT holdfast.read_to(%s::bigint, %s, %s::bigint)", self._now(), reader, read)

    async def doctor(self) -> list[Finding]:
        await self._rows(self._named("SELECT holdfast.set_aside(%s::bigint, true)"), (self._now(),))
        shown = "SELECT kind, queue, id, run, detail FROM holdfast.corrupt ORDER BY number DESC"
        corrupt = [Corrupt(**row) for row in await self._rows(self._named(shown), (), named=True)]
        suspects = [suspected(**row) for row in await self._rows(self._named(doctor.SUSPECTS), (), named=True)]
        (row,) = await self._rows(doctor.LOOK, (), named=True)
        return [*doctor.findings(row), set_aside(corrupt), *(suspects or [suspected(0, "", "", 0)])]
