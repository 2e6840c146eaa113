"""Chains: a look at one is a look at its first job and at its current one, which may be in another queue."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from ...core.chain import BlockerRef, ChainRef
from ...core.job import ErrorRecord, JobRecord, run_number
from ...core.state import State
from ...core.transition import Reply
from ..contract import BlockerRecord, ChainPage, ChainRecord, Deleted, Filter
from . import record
from .keys import Keys, short
from .look import Reader, rid
from .server import Server

TRIES = 50
PAUSE = 0.02
"""A chain that goes from queue to queue is between them for as long as a message takes."""
FIELDS = 8


class Chains:
    """The chains of one namespace."""

    def __init__(
        self,
        server: Server,
        keys: Keys,
        reader: Reader,
        now: Callable[[], str],
        deliver: Callable[[Sequence[str]], Awaitable[None]],
    ) -> None:
        self._server = server
        self._keys = keys
        self._reader = reader
        self._now = now
        self._deliver = deliver

    async def get(self, queue: str, id: str, run: int | None) -> ChainRecord | None:
        """Return the chain of a job as it stands."""
        job = await self._reader.get(queue, id, run, self._now())
        if job is not None and job.position > 0 and job.chain is not None:
            chain = job.chain
            job = await self._reader.get(chain.queue, chain.id, chain.run, self._now())
        return None if job is None else await self._seen(job)

    async def _seen(self, first: JobRecord) -> ChainRecord:
        """Return the chain that a job began."""
        position, tail, ended_at = await self._latest(first)
        current: JobRecord | None = first
        if tail is not None:
            current = await self._reader.get(*tail, None, self._now())
        going_on = first.chain_state in (None, State.ACTIVE)
        state = first.outcome
        if going_on:  # between two of its jobs it waits: the next one is there, or on its way
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
        commands = [["HGET", self._keys.of(first.queue, name), rid(first.run)] for name in ("jobs", "tails")]
        raw, tail = await self._server.ask_all(commands, self._keys.declared(first.queue))
        parsed = record.parse_or_none(raw)
        if tail is None:
            return 0, None, None
        queue, _, id = tail[4:].partition(b"\0")
        ended_at = parsed.rest.ended_at if parsed else None
        return int.from_bytes(tail[:4], "big"), (queue.decode(), id.decode()), ended_at

    async def page(self, which: Filter, limit: int, cursor: str | None) -> ChainPage:
        """Return chains of more than one job, newest first."""
        states = which.states
        found: list[ChainRecord] = []
        which = msgspec.structs.replace(which, states=())
        while len(found) < limit:
            page = await self._reader.jobs(which, limit - len(found), cursor, self._now(), chains=True)
            seen = [await self._seen(job) for job in page.jobs]
            found += [chain for chain in seen if not states or chain.state in states]
            cursor = page.cursor
            if cursor is None:
                break
        return ChainPage(chains=found, cursor=cursor)

    async def complete(
        self, queue: str, id: str, run: int | None, result: bytes, ttl_ms: int | None, request: str | None
    ) -> Reply:
        """complete, from outside: it is for the chain's current job, wherever that is by now."""
        word = b"missing"
        for attempt in range(TRIES):
            chain = await self.get(queue, id, run)
            if chain is None:
                return Reply.MISSING
            for at in dict.fromkeys(
                (chain.ref, chain.current)
            ):  # at home it is found, if it is there, in the same step
                word = await self._server.call(
                    "complete_chain", [self._keys.declared(at.queue)], self._now(), request or "", short(at.id), at.run,
                    result, "" if ttl_ms is None else ttl_ms,
                )  # fmt: skip
                if word == b"ok":
                    await self._deliver([at.queue])
                    return Reply.OK
            if chain.state.finished:
                break
            await self._deliver([queue, chain.ref.queue])
            if attempt:
                await asyncio.sleep(PAUSE)
        return Reply(word.decode()) if word != b"missing" else Reply.WRONG_STATE

    async def delete(self, queue: str, id: str, run: int | None, cascade: bool) -> Deleted:
        """Every job of the chain is gone, or the answer says who waits for it."""
        args = (short(id), "" if run is None else run_number(run), "cascade" if cascade else "")
        word, *rest = await self._server.call("delete_chain", [self._keys.declared(queue)], self._now(), *args)
        if word == b"elsewhere":
            return await self.delete(rest[0].decode(), rest[1].decode(), rest[2], cascade)
        await self._deliver([queue])
        count, *flat = rest
        waiting = [
            ChainRef(name.decode(), waiter.decode(), number)
            for name, number, waiter in zip(flat[::3], flat[1::3], flat[2::3], strict=True)
        ]
        return Deleted(reply=Reply(word.decode()), chains=count, waiting=tuple(waiting))

    async def blockers(self, queue: str, run: int) -> list[BlockerRecord]:
        """Return what a run waits for, or waited for, in order."""
        flat = await self._server.look("blockers", [self._keys.declared(queue)], rid(run_number(run)))
        return [_blocker(flat[at : at + FIELDS]) for at in range(0, len(flat), FIELDS)]


def _blocker(fields: Sequence[Any]) -> BlockerRecord:
    queue, id, run, state, last_queue, last_task, error, result = fields
    known = state.decode() if state else "abandoned"
    return BlockerRecord(
        ref=BlockerRef(queue.decode(), id.decode(), run or None),
        state=State(known) if known != "abandoned" else None,
        queue=last_queue.decode() if last_queue else None,
        task=last_task.decode() if last_task else None,
        result=result,
        error=record.decoded(error, ErrorRecord) if error else None,
    )
