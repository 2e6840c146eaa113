"""Producing: jobs are taken in, and what was taken in is changed from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

import msgspec

from ...core.action import actor
from ...core.bound import MOST_CALL_BYTES
from ...core.chain import ChainRef
from ...core.job import JobRecord, run_number
from ...core.state import State
from ...core.transition import Reply
from ...errors import ConfigError, StoreError
from ..batching import Gather, together
from ..contract import KEEP, Answer, CancelResult, Conflict, DeleteResult, Filter, NewJob, Running
from .arguments.enqueue import answers_to, enqueue_call
from .arguments.entry import in_groups
from .arguments.produce import (
    CancelCall,
    CompleteChainCall,
    DeleteCall,
    DeleteChainCall,
    KeepRunsCall,
    PromoteCall,
    RequeueCall,
    RequeuedFields,
    SetResultTtlCall,
    WaitingFields,
)
from .caller import RedisCaller, rid
from .connection.durability import Durability
from .inspect import RedisInspect
from .keys import long, short
from .outbox import RedisOutbox

MOST_IN_ONE_CALL = 2_000
"""Jobs of one enqueue that go in one call: the server does nothing else meanwhile."""
CHAIN_TRIES, CHAIN_PAUSE = 50, 0.02
"""A chain that goes from queue to queue is between them for as long as a message takes."""


class RedisProduce:
    """What clients call."""

    def __init__(self, caller: RedisCaller, inspect: RedisInspect, outbox: RedisOutbox, durability: Durability) -> None:
        self._caller = caller
        self._inspect = inspect
        self._outbox = outbox
        self._durability = durability
        self._were_taken = False
        """The last jobs were handed over at once: the next may be, and that worker should not hear of them last."""
        self._single: Gather[tuple[str, Conflict], NewJob, Answer] = Gather(
            self._enqueue_singles, MOST_IN_ONE_CALL, _size, MOST_CALL_BYTES, lingers=True
        )

    async def enqueue(
        self, queue: str, jobs: Sequence[NewJob], conflict: Conflict = KEEP, request: str | None = None
    ) -> list[Answer]:
        """Take jobs in, or answer for those that hold their ids."""
        if not jobs:
            return []
        caller = self._caller
        if self._durability.wanted and not caller.server.here:  # what waits belongs to one event loop
            return await caller.server.at_home(self.enqueue(queue, jobs, conflict, request))
        if queue not in caller.known:
            await caller.know(queue)
        key = caller.keys.declared(queue)
        mark = await self._durability.mark(key) if self._durability.wanted else None
        if len(jobs) == 1 and request is None and caller.server.here:
            answers = [await self._single.ask((queue, conflict), jobs[0])]
        else:
            answers = await self._enqueue_all(queue, jobs, conflict, request)
        if mark is not None:
            await self._durability.wait(key, mark)
        return answers

    async def _enqueue_all(
        self, queue: str, jobs: Sequence[NewJob], conflict: Conflict, request: str | None
    ) -> list[Answer]:
        answers: list[Answer] = []
        while (start := len(answers)) < len(jobs):
            part = jobs[start : start + MOST_IN_ONE_CALL]
            part = part[: together(part, _size, MOST_CALL_BYTES)]
            name = "" if request is None else f"{request}/{start}" if start else request
            answers += await self._enqueue(queue, part, conflict, name)
        return answers

    def _enqueue_singles(self, kind: tuple[str, Conflict], jobs: Sequence[NewJob]) -> Coroutine[Any, Any, list[Answer]]:
        return self._enqueue(kind[0], jobs, kind[1], "")

    async def _enqueue(self, queue: str, jobs: Sequence[NewJob], conflict: Conflict, request: str) -> list[Answer]:
        caller = self._caller
        call, more = enqueue_call(queue, jobs, conflict, request, caller.server.address.history)
        # Who waits for the result of a job leaves its core to the worker.
        polls = len(jobs) == 1 and jobs[0].watcher is None
        reply = await caller.call(queue, call, more, notifies=self._were_taken, polls=polls)
        self._were_taken = bool(reply.taken)
        answers = answers_to(jobs, reply)
        if reply.status == b"posted":
            await self._outbox.try_to_deliver(queue)
            answers = await self._unblocked(queue, answers)
        return answers

    async def _unblocked(self, queue: str, answers: list[Answer]) -> list[Answer]:
        """Return the answers as they are now that other queues have said which blockers are over already."""
        blocked = [answer for answer in answers if answer.state is State.BLOCKED]
        try:
            looks = (self._inspect.get(queue, answer.id, answer.run) for answer in blocked)
            found = {job.run: job for job in await asyncio.gather(*looks) if job is not None}
        except StoreError:
            return answers  # the jobs are taken in; that one of them need not wait any more is only not known
        return [_as_found(answer, found.get(answer.run)) for answer in answers]

    async def cancel(
        self, queue: str, id: str, running: Running = "refuse", request: str | None = None
    ) -> CancelResult:
        """Cancel a job that has not started; refuse or signal one that runs."""
        call = CancelCall(request=request or "", id=short(id), running=running, actor=actor())
        found = await self._caller.call(queue, call)
        await self._outbox.try_to_deliver(queue)
        return CancelResult(
            reply=Reply(found.reply.decode()),
            state=State(found.state.decode()) if found.state else None,
            run=found.run,
            signalled=bool(found.signalled),
            successor=bool(found.successor),
        )

    async def promote(self, queue: str, id: str) -> Reply:
        """Let a scheduled job wait from now on."""
        return await self._caller.word(queue, PromoteCall(id=short(id), actor=actor()))

    async def requeue(
        self, which: Filter, limit: int, dry_run: bool, request: str | None
    ) -> list[tuple[str, str, int]]:
        """Start finished jobs anew, failed ones unless the filter says otherwise."""
        if any(not state.finished for state in which.states):
            raise ConfigError("only finished jobs are requeued: completed, failed or cancelled ones")
        which = msgspec.structs.replace(which, states=which.states or (State.FAILED,))
        done: list[tuple[str, str, int]] = []
        for queue in [which.queue] if which.queue is not None else await self._caller.names():
            if limit > len(done):
                done += await self._requeue(queue, which, limit - len(done), dry_run, request or "")
        return done

    async def _requeue(
        self, queue: str, which: Filter, limit: int, dry_run: bool, request: str
    ) -> list[tuple[str, str, int]]:
        search = self._inspect.search
        found = await search.matching(queue, which, limit, requeued=False)
        runs = [job.run for job in found.jobs[:limit]]
        if not runs and not request:
            return []
        call = RequeueCall(request=request, dry_run=dry_run, actor=actor())
        flat = await self._caller.call(queue, call, [rid(run) for run in reversed(runs)])
        if flat and not dry_run:
            await self._outbox.try_to_deliver(queue)
        return [(queue, long(id), run) for id, run in in_groups(flat, RequeuedFields)]

    async def delete(self, queue: str, id: str) -> Reply:
        """Delete a job, and the chain that it began."""
        reply = await self._caller.word(queue, DeleteCall(id=short(id), actor=actor()))
        await self._outbox.try_to_deliver(queue)
        return reply

    async def set_result_ttl(self, queue: str, id: str, ttl_ms: int) -> Reply:
        """Keep the result of one job for so long."""
        return await self._caller.word(queue, SetResultTtlCall(id=short(id), ttl_ms=ttl_ms, actor=actor()))

    async def keep_runs(self, queue: str, first: int, last: int, ttl_ms: int | None) -> None:
        """Keep the results of a range of runs for so long, or as the queue says."""
        await self._caller.word(queue, KeepRunsCall(first=first, last=last, ttl_ms=ttl_ms))

    async def complete_chain(
        self,
        queue: str,
        id: str,
        run: int | None,
        result: bytes,
        result_ttl_ms: int | None = None,
        request: str | None = None,
    ) -> Reply:
        """Complete the chain's current job, wherever that is by now."""
        word = b"missing"
        for attempt in range(CHAIN_TRIES):
            chain = await self._inspect.chain(queue, id, run)
            if chain is None:
                return Reply.MISSING
            for at in dict.fromkeys((chain.ref, chain.current)):  # at home it is found, if it is there, in one step
                call = CompleteChainCall(
                    request=request or "", id=short(at.id), run=at.run, result=result, ttl_ms=result_ttl_ms,
                    actor=actor(),
                )  # fmt: skip
                word = await self._caller.call(at.queue, call)
                if word == b"ok":
                    await self._outbox.try_to_deliver(at.queue)
                    return Reply.OK
            if chain.state.finished:
                break
            await self._outbox.try_to_deliver(queue, chain.ref.queue)
            if attempt:
                await asyncio.sleep(CHAIN_PAUSE)
        return Reply(word.decode()) if word != b"missing" else Reply.WRONG_STATE

    async def delete_chain(self, queue: str, id: str, run: int | None = None, cascade: bool = False) -> DeleteResult:
        """Delete every job of a chain, or say which jobs wait for it."""
        call = DeleteChainCall(id=short(id), run=run_number(run), cascade=cascade, actor=actor())
        found = await self._caller.call(queue, call)
        if found.elsewhere is not None:
            name, first, number = found.elsewhere
            return await self.delete_chain(name.decode(), first.decode(), number, cascade)
        await self._outbox.try_to_deliver(queue)
        waiting = [
            ChainRef(name.decode(), waiter.decode(), number)
            for name, number, waiter in in_groups(found.waiting or [], WaitingFields)
        ]
        return DeleteResult(reply=Reply(found.reply.decode()), chains=found.chains or 0, waiting=tuple(waiting))


def _size(job: NewJob) -> int:
    return len(job.payload)


def _as_found(answer: Answer, job: JobRecord | None) -> Answer:
    if job is None:
        return answer
    return msgspec.structs.replace(answer, state=job.outcome, error=job.error if job.outcome is State.FAILED else None)
