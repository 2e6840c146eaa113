"""Chains: one is read from its first job and its current one, which may be in another queue."""

from __future__ import annotations

from typing import Any

import msgspec

from ....core.chain import BlockerRef, ChainRef
from ....core.job import ErrorRecord, JobRecord, run_number
from ....core.state import State
from ...contract import BlockerRecord, ChainPage, ChainRecord, Filter
from ..arguments.entry import in_groups
from ..arguments.inspect import BlockerFields, BlockersCall
from ..caller import RedisCaller, rid
from ..record.job import parse_or_none
from ..record.view import decoded
from .records import RecordReader
from .search import Search


class ChainReader:
    """Reads the chains of one namespace."""

    def __init__(self, caller: RedisCaller, records: RecordReader, search: Search) -> None:
        self._caller = caller
        self._records = records
        self._search = search

    async def get(self, queue: str, id: str, run: int | None) -> ChainRecord | None:
        """Return the chain of a job as it stands."""
        job = await self._records.get(queue, id, run)
        if job is not None and job.position > 0 and job.chain is not None:
            job = await self._records.get(job.chain.queue, job.chain.id, job.chain.run)
        return None if job is None else await self._begun_by(job)

    async def page(self, which: Filter, limit: int, cursor: str | None) -> ChainPage:
        """Return chains of more than one job, newest first."""
        states = which.states
        found: list[ChainRecord] = []
        which = msgspec.structs.replace(which, states=())
        while len(found) < limit:
            page = await self._search.page(which, limit - len(found), cursor, chains=True)
            seen = [await self._begun_by(job) for job in page.jobs]
            found += [chain for chain in seen if not states or chain.state in states]
            cursor = page.cursor
            if cursor is None:
                break
        return ChainPage(chains=found, cursor=cursor)

    async def blockers(self, queue: str, run: int) -> list[BlockerRecord]:
        """Return what a run waits for, or waited for, in order."""
        flat = await self._caller.read(queue, BlockersCall(rid=rid(run_number(run))))
        return [_blocker(BlockerFields._make(fields)) for fields in in_groups(flat, BlockerFields)]

    async def _begun_by(self, first: JobRecord) -> ChainRecord:
        """Return the chain that a job began."""
        position, tail, ended_at = await self._latest(first)
        current: JobRecord | None = first
        if tail is not None:
            current = await self._records.get(*tail)
        state = first.outcome
        if first.chain_state in (None, State.ACTIVE):  # between two jobs it waits: the next is there, or on its way
            state = State.WAITING if current is None or (tail is not None and current.continued) else current.state
        ref = ChainRef(first.queue, first.id, first.run)
        return ChainRecord(
            ref=ref,
            task=first.task,
            state=state,
            position=position,
            current=ChainRef(current.queue, current.id, current.run) if current else ref,
            enqueued_at_ms=first.enqueued_at_ms,
            finished_at_ms=first.finished_at_ms if first.chain_state is None else ended_at,
            result=first.result,
            error=first.error if state is State.FAILED else None,
            expires_at_ms=first.expires_at_ms,
        )

    async def _latest(self, first: JobRecord) -> tuple[int, tuple[str, str] | None, int | None]:
        """Return the position, queue and id of a chain's latest job, and when it ended; by its first job."""
        if first.chain_state is None:
            return 0, None, None
        keys = self._caller.keys
        commands: list[list[Any]] = [["HGET", keys.of(first.queue, name), rid(first.run)] for name in ("jobs", "tails")]
        raw, tail = await self._caller.server.ask_all(commands, keys.declared(first.queue))
        parsed = parse_or_none(raw)
        if tail is None:
            return 0, None, None
        queue, _, id = tail[4:].partition(b"\0")
        ended_at = parsed.rest.ended_at if parsed else None
        return int.from_bytes(tail[:4], "big"), (queue.decode(), id.decode()), ended_at


def _blocker(fields: BlockerFields) -> BlockerRecord:
    known = fields.state.decode() if fields.state else "abandoned"
    return BlockerRecord(
        ref=BlockerRef(fields.queue.decode(), fields.id.decode(), fields.run or None),
        state=State(known) if known != "abandoned" else None,
        queue=fields.last_queue.decode() if fields.last_queue else None,
        task=fields.last_task.decode() if fields.last_task else None,
        result=fields.result,
        error=decoded(fields.error, ErrorRecord) if fields.error else None,
    )
