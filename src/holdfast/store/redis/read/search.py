"""Jobs that match a filter, newest first."""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator

import msgspec

from ....core.bound import ASKED_AT_ONCE
from ....core.chain import ChainRef
from ....core.envelope import readable
from ....core.job import JobRecord, run_number
from ....core.state import State
from ....errors import ConfigError
from ...contract import Filter, JobPage
from ..arguments.entry import in_groups
from ..arguments.inspect import MembersCall, RecordFields, RecordsCall
from ..caller import RedisCaller, rid
from ..keys import short
from ..record.job import RedisRecord, is_gone, parse_or_none
from ..record.view import job_record

_INDEXED = {State.ACTIVE: "active", State.FAILED: "letters", State.CANCELLED: "cancelled", State.BLOCKED: "blocked"}
"""States whose runs are few, or in order of run."""


class Search:
    """Searches the jobs of one namespace."""

    def __init__(self, caller: RedisCaller) -> None:
        self._caller = caller

    async def page(self, which: Filter, limit: int, cursor: str | None, *, chains: bool = False) -> JobPage:
        """Return jobs that match, newest first; with `chains`, first jobs that continued."""
        before = _cursor(cursor)
        names = [which.queue] if which.queue is not None else await self._caller.names()
        each = [
            [job async for job in self.matching(name, which, before.get(name), limit + 1, chains=chains)]
            for name in names
        ]
        # The runs of one queue stay in their order, even where the clock went back: the cursor counts by runs.
        found = list(heapq.merge(*each, key=lambda job: (job.enqueued_at_ms, job.run), reverse=True))
        page = found[:limit]
        if len(found) <= limit:
            return JobPage(jobs=page)
        for job in page:
            before[job.queue] = min(job.run, before.get(job.queue, job.run))
        return JobPage(jobs=page, cursor=msgspec.json.encode(before).decode())

    async def matching(
        self,
        queue: str,
        which: Filter,
        before: int | None,
        limit: int,
        *,
        requeued: bool = True,
        chains: bool = False,
    ) -> AsyncIterator[JobRecord]:
        """Yield jobs of one queue that match, newest first. Without `requeued`, none that was started anew."""
        seen = [0]
        async for runs in self._runs(queue, which, before, seen, chains):
            found = await self._caller.read(queue, RecordsCall(), [rid(run) for run in runs])
            at = found.now
            for run, raw, successor in in_groups(found.records, RecordFields):
                seen[0] += 1
                parsed = parse_or_none(raw)
                if parsed is None:
                    await self._caller.set_aside(queue, [run])
                    continue
                if is_gone(parsed, at) or not _matches(which, parsed) or (parsed.rest.requeued_as and not requeued):
                    continue
                yield job_record(queue, run, parsed, bool(successor), at)
                limit -= 1
                if limit == 0:
                    return

    async def _runs(
        self, queue: str, which: Filter, before: int | None, seen: list[int], chains: bool
    ) -> AsyncIterator[list[int]]:
        """Yield runs that may match, newest first, in chunks."""
        if chains:
            key = self._caller.keys.of(queue, "chains")
            found = {int.from_bytes(each, "big") for each in await self._caller.server.ask(["ZRANGE", key, 0, -1], key)}
        elif which.chain is not None:
            found = await self._runs_of_chain(queue, which.chain)
        elif which.ids:
            found = await self._runs_of(queue, which.ids)
        elif which.holders:
            found = await self._runs_in(queue, (State.ACTIVE,))
        elif which.states and all(state in _INDEXED for state in which.states):
            found = await self._runs_in(queue, which.states)
        else:
            async for chunk in self._walk(queue, before, seen):
                yield chunk
            return
        runs = sorted((run for run in found if before is None or run < before), reverse=True)
        for start in range(0, len(runs), ASKED_AT_ONCE):
            yield runs[start : start + ASKED_AT_ONCE]

    async def _runs_of_chain(self, queue: str, chain: ChainRef) -> set[int]:
        run = run_number(chain.run)
        members = MembersCall(chain_queue=chain.queue, chain_id=chain.id, chain_run=run)
        runs = {int.from_bytes(each, "big") for each in await self._caller.read(queue, members)}
        return runs | {run} if queue == chain.queue else runs

    async def _runs_of(self, queue: str, ids: tuple[str, ...]) -> set[int]:
        keys, stored = self._caller.keys, [short(id) for id in ids]
        commands = [["HMGET", keys.of(queue, name), *stored] for name in ("ids", "past")]
        held, past = await self._caller.server.ask_all(commands, keys.declared(queue))
        runs = {int.from_bytes(each, "big") for each in held if each}
        return runs.union(*(_past_runs(each) for each in past if each))

    async def _runs_in(self, queue: str, states: tuple[State, ...]) -> set[int]:
        keys = self._caller.keys
        commands: list[list[str | int]] = [
            ["HKEYS", keys.of(queue, "active")]
            if state is State.ACTIVE
            else ["ZRANGE", keys.of(queue, _INDEXED[state]), 0, -1]
            for state in states
        ]
        replies = await self._caller.server.ask_all(commands, keys.declared(queue))
        return {int.from_bytes(each, "big") for reply in replies for each in reply}

    async def _walk(self, queue: str, before: int | None, seen: list[int]) -> AsyncIterator[list[int]]:
        """Yield every run from the newest on, until as many were seen as there are."""
        keys = self._caller.keys
        key = keys.declared(queue)
        commands = [["HGET", key, "run"], ["HLEN", keys.of(queue, "jobs")]]
        last, left = await self._caller.server.ask_all(commands, key)
        run = int(last or 0) if before is None else min(before - 1, int(last or 0))
        while run > 0 and seen[0] < left:
            yield list(range(run, max(0, run - ASKED_AT_ONCE), -1))
            run -= ASKED_AT_ONCE


def _past_runs(text: bytes) -> list[int]:
    try:
        return msgspec.msgpack.decode(text, type=list[int])
    except msgspec.MsgspecError:
        return []


def _cursor(text: str | None) -> dict[str, int]:
    if text is None:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, int])
    except msgspec.MsgspecError:
        raise ConfigError(f"cursor {text!r} is not one that a list of jobs gave") from None


def _matches(which: Filter, found: RedisRecord) -> bool:
    return (
        (not which.states or found.state in which.states)
        and (which.task is None or found.task == which.task)
        and (which.key is None or found.rest.key == which.key)
        and (not which.ids or found.id in which.ids)
        and (not which.holders or (found.state is State.ACTIVE and found.life.session in which.holders))
        and (which.tag is None or which.tag in readable(found.rest.envelope).tags)
        and (which.enqueued_after_ms is None or found.enqueued_at >= which.enqueued_after_ms)
        and (which.enqueued_before_ms is None or found.enqueued_at < which.enqueued_before_ms)
    )
