"""What producers call: jobs come in, are changed, and are taken away."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import msgspec

from ...core.action import actor
from ...core.bound import CANCELLED_AT_ONCE, SWEPT_AT
from ...core.chain import ChainRef
from ...core.job import run_number
from ...core.state import State
from ...core.transition import Reply
from ...errors import ConfigError, StoreError
from ..contract import KEEP, Answer, CancelResult, Conflict, DeleteResult, Filter, NewJob, Running
from .call.arguments import selection
from .call.array import blob, numbers
from .connection.caller import PostgresCaller
from .enqueue import EnqueueWays
from .read.page import PostgresPages


class PostgresProduce:
    """Producing, of the contract."""

    def __init__(self, caller: PostgresCaller) -> None:
        self._caller = caller
        self._ways = EnqueueWays(caller)
        self._pages = PostgresPages(caller)
        self._unswept = 0

    async def enqueue(
        self, queue: str, jobs: Sequence[NewJob], conflict: Conflict = KEEP, request: str | None = None
    ) -> list[Answer]:
        """Enqueue every job, or answer with the one that holds its id."""
        if not jobs:
            return []
        answers = await self._ways.enqueue(queue, jobs, conflict, request)
        self._unswept += len(jobs)
        if self._unswept >= SWEPT_AT:
            await self._sweep()
        return answers

    async def _sweep(self) -> None:
        """Trim the log, which grows also while no worker does the upkeep: more events may go than have come."""
        limit, self._unswept = self._unswept // 10, 0
        with contextlib.suppress(StoreError):  # the jobs are enqueued, and a later call sweeps again
            await self._caller.value("sweep", history=self._caller.address.history, limit=limit)

    async def cancel(
        self, queue: str, id: str, running: Running = "refuse", request: str | None = None
    ) -> CancelResult:
        """Cancel a job and its successor; leave or signal an active one."""
        found = await self._caller.value(
            "cancel", queue=queue, id=id, running=running, request=request, actor=actor(),
            repeatable=request is not None,
        )  # fmt: skip
        return msgspec.convert(found, CancelResult)

    async def promote(self, queue: str, id: str) -> Reply:
        """Make a scheduled job claimable now."""
        return Reply(await self._caller.value("promote", queue=queue, id=id, actor=actor()))

    async def requeue(
        self, which: Filter, *, limit: int = CANCELLED_AT_ONCE, dry_run: bool = False, request: str | None = None
    ) -> list[tuple[str, str, int]]:
        """Run finished jobs anew."""
        if any(not state.finished for state in which.states):
            raise ConfigError("only finished jobs are requeued: completed, failed or cancelled ones")
        which = msgspec.structs.replace(which, states=which.states or (State.FAILED,))
        found = await self._caller.value(
            "requeue", **selection(which), runs=await self._runs(which, limit), limit=limit, dry=dry_run,
            request=request, actor=actor(), repeatable=request is not None or dry_run,
        )  # fmt: skip
        return msgspec.convert(found, list[tuple[str, str, int]])

    async def _runs(self, which: Filter, limit: int) -> str | None:
        """Return the runs that match, where the server's function does not know all that the filter asks for."""
        if which == Filter(
            queue=which.queue, states=which.states, task=which.task, key=which.key, ids=which.ids,
            enqueued_after_ms=which.enqueued_after_ms, enqueued_before_ms=which.enqueued_before_ms,
        ):  # fmt: skip
            return None
        found, _ = await self._pages.matching(which, limit, requeued=False, most=None)
        return numbers([job.run for job in found])

    async def delete(self, queue: str, id: str) -> Reply:
        """Delete a job, in every state."""
        return Reply(await self._caller.value("delete", queue=queue, id=id, actor=actor(), repeatable=False))

    async def set_result_ttl(self, queue: str, id: str, ttl_ms: int) -> Reply:
        """Keep a finished job's result for so long from now; an unfinished one's from its end."""
        return Reply(await self._caller.value("set_result_ttl", queue=queue, id=id, ttl=ttl_ms, actor=actor()))

    async def keep_runs(self, queue: str, first: int, last: int, ttl_ms: int | None) -> None:
        """Set the TTL of all runs of a queue with these numbers."""
        await self._caller.value("keep_runs", queue=queue, first=first, last=last, ttl=ttl_ms)

    async def complete_chain(
        self,
        queue: str,
        id: str,
        run: int | None,
        result: bytes,
        result_ttl_ms: int | None = None,
        request: str | None = None,
    ) -> Reply:
        """Complete a chain from outside, with this result."""
        reply = await self._caller.value(
            "complete_chain", queue=queue, id=id, run=run_number(run), result=blob(result), ttl=result_ttl_ms,
            request=request, actor=actor(), repeatable=request is not None,
        )  # fmt: skip
        return Reply(reply)

    async def delete_chain(self, queue: str, id: str, run: int | None = None, cascade: bool = False) -> DeleteResult:
        """Delete every job of a chain; with `cascade` also the chains that wait for it."""
        (row,) = await self._caller.call(
            "delete_chain", queue=queue, id=id, run=run_number(run), cascade=cascade, actor=actor(), repeatable=False
        )
        refused = row["waiting"] if row["reply"] == Reply.WRONG_STATE else None
        waiting = tuple(ChainRef(*each) for each in refused or ())
        return DeleteResult(reply=Reply(row["reply"]), chains=row["chains"], waiting=waiting)
