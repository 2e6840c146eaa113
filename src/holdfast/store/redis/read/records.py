"""Single jobs, by id and run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ....core.bound import ASKED_AT_ONCE
from ....core.job import JobRecord, run_number
from ...batching import Gather
from ..arguments.inspect import FetchCall, GetCall
from ..caller import RedisCaller, rid
from ..keys import short
from ..record.job import is_gone, parse_or_none
from ..record.view import job_record


class RecordReader:
    """Reads the records of one namespace."""

    def __init__(self, caller: RedisCaller) -> None:
        self._caller = caller
        self._fetched: Gather[tuple[str, str], int, tuple[int, bytes | None]] = Gather(self._fetch, ASKED_AT_ONCE)

    async def get(self, queue: str, id: str, run: int | None = None) -> JobRecord | None:
        """Return the run that answers for an id, or a given run of it."""
        run = run_number(run)
        if run is not None and self._caller.server.here:
            at, raw = await self._fetched.ask((queue, self._caller.now()), run)
            parsed = parse_or_none(raw)
            if parsed is not None and parsed.id == id and parsed.state.finished and not is_gone(parsed, at):
                return job_record(queue, run, parsed, False, at)
        found = await self._caller.read(queue, GetCall(id=short(id), run=run))
        if found is None:
            return None
        parsed = parse_or_none(found.record)
        if parsed is not None:
            return job_record(queue, found.run, parsed, bool(found.successor), found.now)
        await self._caller.set_aside(queue, [found.run])
        return await self.get(queue, id)

    async def look_up(self, ids: Sequence[str], queue: str | None = None) -> list[JobRecord]:
        """Return the run that answers for each of these ids that is there. All are asked at once, on one connection."""
        names = [queue] if queue is not None else await self._caller.names()
        found = await asyncio.gather(*(self.get(name, id) for id in ids for name in names))
        return [each for each in found if each is not None]

    async def _fetch(self, kind: tuple[str, str], runs: Sequence[int]) -> list[tuple[int, bytes | None]]:
        """Return the time and the record of each run, as it stands."""
        found = await self._caller.read(kind[0], FetchCall(), [rid(run) for run in runs])
        return [(found.now, record) for record in found.records]
