"""Producing: jobs are taken in, and what was taken in is changed from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

import msgspec

from ...core.state import State
from ...core.transition import Reply
from ...errors import ConfigError, StoreError
from ..contract import KEEP, Answer, Cancelled, Conflict, Deleted, Filter, NewJob, Running
from ..gather import Gather, together
from .chain import Chains
from .deliver import LARGEST, Delivering
from .keys import long, short
from .look import rid
from .order import answers_to, asked, rule, taken_at_once

MOST_IN_ONE_CALL = 2_000
"""Jobs of one enqueue that go in one call: the server does nothing else meanwhile."""


class Producing(Delivering):
    """What clients call."""

    def _make(self) -> None:
        super()._make()
        self._chains = Chains(self._server, self._keys, self._reader, self._now, self._deliver_all)
        self._were_taken = False
        """The last jobs were given to a worker at once: the next ones may be, and it should not hear of them last."""
        self._single: Gather[tuple[str, Conflict], NewJob, Answer] = Gather(
            self._enqueue_fresh, MOST_IN_ONE_CALL, _size, LARGEST
        )

    async def enqueue(
        self, queue: str, jobs: Sequence[NewJob], conflict: Conflict = KEEP, request: str | None = None
    ) -> list[Answer]:
        if not jobs:
            return []
        if self._durability.wanted and not self._server.here:  # what waits belongs to one event loop
            return await self._server.at_home(self.enqueue(queue, jobs, conflict, request))
        if queue not in self._known:
            await self._know(queue)
        key = self._keys.declared(queue)
        mark = await self._durability.mark(key) if self._durability.wanted else None
        if len(jobs) == 1 and request is None and self._server.here:
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
            part = part[: together(part, _size, LARGEST)]
            name = "" if request is None else f"{request}/{start}" if start else request
            answers += await self._enqueue(queue, part, conflict, name)
        return answers

    def _enqueue_fresh(self, kind: tuple[str, Conflict], jobs: Sequence[NewJob]) -> Coroutine[Any, Any, list[Answer]]:
        return self._enqueue(kind[0], jobs, kind[1], "")

    async def _enqueue(self, queue: str, jobs: Sequence[NewJob], conflict: Conflict, request: str) -> list[Answer]:
        args: list[Any] = [self._now(), queue, request, self.place.history, rule(conflict), len(jobs)]
        keys = [self._keys.declared(queue)]
        reply = await self._server.call("enqueue", keys, *args, *asked(jobs), tells=self._were_taken)
        self._were_taken = taken_at_once(reply)
        answers = answers_to(jobs, reply)
        if reply[0] == b"posted":
            await self._deliver_all([queue])
            answers = await self._unblocked(queue, answers)
        return answers

    async def _unblocked(self, queue: str, answers: list[Answer]) -> list[Answer]:
        """Return the answers as they are now that other queues have said which blockers are over already."""
        blocked = [answer for answer in answers if answer.state is State.BLOCKED]
        try:
            looks = (self._reader.get(queue, answer.id, answer.run, self._now()) for answer in blocked)
            states = {job.run: job.outcome for job in await asyncio.gather(*looks) if job is not None}
        except StoreError:
            return answers  # the jobs are taken in; that one of them need not wait any more is only not known
        return [msgspec.structs.replace(answer, state=states.get(answer.run, answer.state)) for answer in answers]

    async def cancel(self, queue: str, id: str, running: Running = "refuse", request: str | None = None) -> Cancelled:
        key = self._keys.declared(queue)
        word, state, run, signalled, successor = await self._server.call(
            "cancel", [key], self._now(), request or "", short(id), running
        )
        await self._deliver_all([queue])
        return Cancelled(
            reply=Reply(word.decode()),
            state=State(state.decode()) if state else None,
            run=run,
            signalled=bool(signalled),
            successor=bool(successor),
        )

    async def promote(self, queue: str, id: str) -> Reply:
        return await self._word("promote", queue, short(id))

    async def requeue(
        self, which: Filter, *, limit: int = 1000, dry_run: bool = False, request: str | None = None
    ) -> list[tuple[str, str, int]]:
        if any(not state.finished for state in which.states):
            raise ConfigError("only finished jobs are requeued: completed, failed or cancelled ones")
        which = msgspec.structs.replace(which, states=which.states or (State.FAILED,))
        done: list[tuple[str, str, int]] = []
        for queue in [which.queue] if which.queue is not None else await self._reader.names():
            if limit > len(done):
                done += await self._requeue(queue, which, limit - len(done), dry_run, request or "")
        return done

    async def _requeue(
        self, queue: str, which: Filter, limit: int, dry_run: bool, request: str
    ) -> list[tuple[str, str, int]]:
        runs = [job.run async for job in self._reader.matching(queue, which, None, limit, self._now(), requeued=False)]
        if not runs and not request:
            return []
        args = ["dry" if dry_run else "do", *(rid(run) for run in reversed(runs))]
        flat = await self._server.call("requeue", [self._keys.declared(queue)], self._now(), request, *args)
        if flat and not dry_run:
            await self._deliver_all([queue])
        return [(queue, long(id), run) for id, run in zip(flat[::2], flat[1::2], strict=True)]

    async def delete(self, queue: str, id: str) -> Reply:
        reply = await self._word("delete", queue, short(id))
        await self._deliver_all([queue])
        return reply

    async def complete_chain(
        self,
        queue: str,
        id: str,
        run: int | None,
        result: bytes,
        result_ttl_ms: int | None = None,
        request: str | None = None,
    ) -> Reply:
        return await self._chains.complete(queue, id, run, result, result_ttl_ms, request)

    async def delete_chain(self, queue: str, id: str, run: int | None = None, cascade: bool = False) -> Deleted:
        return await self._chains.delete(queue, id, run, cascade)

    async def set_result_ttl(self, queue: str, id: str, ttl_ms: int) -> Reply:
        return await self._word("set_ttl", queue, short(id), ttl_ms)

    async def keep_runs(self, queue: str, first: int, last: int, ttl_ms: int | None) -> None:
        await self._word("keep_runs", queue, first, last, "" if ttl_ms is None else ttl_ms)


def _size(job: NewJob) -> int:
    return len(job.payload)
