"""What producers call: jobs are taken in, changed and taken away, and how long results are kept."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from ...core.action import ttl_set
from ...core.bound import CANCELLED_AT_ONCE, MOST_CALL_BYTES, SMALL_BYTES, SWEPT_AT
from ...core.state import State
from ...core.transition import Reply
from ...errors import StoreError
from ..batching import LoopGather
from ..contract import KEEP, Answer, CancelResult, Conflict, DeleteResult, Filter, NewJob, Running
from ..rows import outcome
from .connection.at_once import SMALL
from .connection.wal import NEW_JOBS
from .database import Database
from .transition.cancel import cancel
from .transition.claim.promote import promote
from .transition.complete import complete_chain
from .transition.delete import delete, delete_chain
from .transition.enqueue import enqueue, run_of_id
from .transition.expire import sweep
from .transition.requeue import requeue
from .tx import Tx, acting

MOST_SINGLES = 500
"""Single jobs of many callers that are taken in by one piece of work."""


def _size(job: NewJob) -> int:
    return len(job.payload)


class SqliteProduce:
    """Take in jobs, change them and take them away."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._unswept = 0
        self._single = LoopGather(self._enqueue_singles, MOST_SINGLES, _size, MOST_CALL_BYTES)
        """What many callers enqueue at the same time, one job each."""

    async def enqueue(
        self, queue: str, jobs: Sequence[NewJob], conflict: Conflict = KEEP, request: str | None = None
    ) -> list[Answer]:
        """Enqueue every job, or answer with the job that has its id; answers are in the order given."""
        if not jobs:
            return []
        self._database.writer.log.admit(NEW_JOBS)
        job = jobs[0]
        if len(jobs) == 1 and request is None and conflict is KEEP and job.dedup is None and not job.blockers:
            return [await self._single.ask(queue, job)]  # nothing about such a job can fail for itself
        return await self._enqueue(queue, jobs, conflict, request)

    async def _enqueue_singles(self, queue: str, jobs: Sequence[NewJob]) -> list[Answer]:
        return await self._enqueue(queue, jobs, KEEP, None)

    async def _enqueue(
        self, queue: str, jobs: Sequence[NewJob], conflict: Conflict, request: str | None
    ) -> list[Answer]:
        small = len(jobs) <= SMALL and sum(len(job.payload) for job in jobs) <= SMALL_BYTES
        answers = await self._database.write_once(request, list[Answer], enqueue, queue, jobs, conflict, small=small)
        self._unswept += len(jobs)
        if self._unswept >= SWEPT_AT:
            await self._sweep()
        return answers

    async def _sweep(self) -> None:
        """Keep the log at its length where no worker does: remove up to twice as many events as have come."""
        count, self._unswept = self._unswept, 0
        history = self._database.address.history
        with contextlib.suppress(StoreError):  # the jobs are taken in, and the next enqueue sweeps again
            await self._database.write(sweep, history, 2 * count)

    async def cancel(
        self, queue: str, id: str, running: Running = "refuse", request: str | None = None
    ) -> CancelResult:
        """Cancel a job and its successor; an active job is left alone, or its handler is told to stop."""
        return await self._database.write_once(request, CancelResult, acting(cancel), queue, id, running, small=True)

    async def promote(self, queue: str, id: str) -> Reply:
        """Promote a scheduled job, so that it may be claimed now."""
        return await self._database.write(acting(promote), queue, id)

    async def requeue(
        self, which: Filter, *, limit: int = CANCELLED_AT_ONCE, dry_run: bool = False, request: str | None = None
    ) -> list[tuple[str, str, int]]:
        """Requeue the finished jobs that match: (queue, id, new run) of each; with `dry_run`, of what would be."""
        return await self._database.write_once(
            request, list[tuple[str, str, int]], acting(requeue), which, limit, dry_run
        )

    async def delete(self, queue: str, id: str) -> Reply:
        """Delete a job, in whatever state."""
        return await self._database.write(acting(delete), queue, id)

    async def set_result_ttl(self, queue: str, id: str, ttl_ms: int) -> Reply:
        """Keep a finished job's result for so long from now, an unfinished one's from its end."""
        return await self._database.write(acting(_set_result_ttl), queue, id, ttl_ms)

    async def keep_runs(self, queue: str, first: int, last: int, ttl_ms: int | None) -> None:
        """Keep the results of the runs with these numbers for so long; `None` is as the queue says."""
        await self._database.write(_keep_runs, queue, first, last, ttl_ms)

    async def complete_chain(
        self,
        queue: str,
        id: str,
        run: int | None,
        result: bytes,
        result_ttl_ms: int | None = None,
        request: str | None = None,
    ) -> Reply:
        """Complete a chain from outside with this result."""
        return await self._database.write_once(
            request, Reply, acting(complete_chain), queue, id, run, result, result_ttl_ms, small=True
        )

    async def delete_chain(self, queue: str, id: str, run: int | None = None, cascade: bool = False) -> DeleteResult:
        """Delete a chain, and with `cascade` every chain that waits for it; without, refuse while one waits."""
        return await self._database.write(acting(delete_chain), queue, id, run, cascade)


def _set_result_ttl(tx: Tx, queue: str, id: str, ttl_ms: int) -> Reply:
    row = run_of_id(tx, queue, id)
    if row is None:
        return Reply.MISSING
    kept = tx.queue(queue).settings.retention.kept_ms(outcome(row))
    tx.run("job", "set_ttl", run=row["run"], now=tx.now, ttl=ttl_ms, kept=kept)
    tx.append_action(queue, ttl_set(id, row["run"], ttl_ms))
    return Reply.OK


def _keep_runs(tx: Tx, queue: str, first: int, last: int, ttl_ms: int | None) -> None:
    settings = tx.queue(queue).settings
    failed, completed = (settings.retention.kept_ms(state) for state in (State.FAILED, State.COMPLETED))
    span = {"queue": queue, "first": first, "last": last, "ttl": ttl_ms}
    free_at = tx.now + (settings.result_ttl_ms if ttl_ms is None else ttl_ms)
    tx.run("job", "keep_unfinished", **span)  # two statements: this one touches no index
    tx.run("job", "keep_finished", **span, free_at=free_at, failed=failed, completed=completed)
