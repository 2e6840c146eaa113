"""Actions on many jobs at once, in the background: counted first or done, with progress, and stopped when told to."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Literal

import msgspec

from ..app.app import Holdfast
from ..core.job import JobRecord
from ..core.state import State
from ..core.transition import Reply
from ..errors import HoldfastError
from ..json.form import JsonObject, iso
from ..store.contract import Running
from .problem import Problem

log = logging.getLogger("holdfast")
Action = Literal["cancel", "requeue", "promote", "delete"]
PAGE = 200
AT_ONCE = 20
"""Jobs of a page that are acted on side by side."""
MOST_RUNNING = 4
KEPT = 100
SAMPLE = 10
MOST_MATCHED = 1_000_000


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done, and to which jobs."""

    action: Action
    filter: dict[str, Any]
    """As `app.jobs` takes it."""
    shown: JsonObject
    """As the caller gave it."""
    by: str
    dry_run: bool = False
    limit: int = MOST_MATCHED
    running: Running = "refuse"


class Operation(msgspec.Struct, kw_only=True):
    """One order, as far as it has got. `more`: the limit was reached, and others match, too."""

    id: str
    order: Order
    state: Literal["running", "done", "stopped", "failed"] = "running"
    matched: int = 0
    done: int = 0
    refused: int = 0
    more: bool = False
    sample: list[JsonObject] = []
    error: str | None = None
    started: float
    finished: float | None = None
    stop: bool = False

    def form(self) -> JsonObject:
        """Return it as JSON."""
        order = self.order
        return {
            "id": self.id,
            "action": order.action,
            "filter": order.shown,
            "dry_run": order.dry_run,
            "state": self.state,
            "matched": self.matched,
            "done": self.done,
            "refused": self.refused,
            "more": self.more,
            "sample": self.sample,
            "error": self.error,
            "by": order.by,
            "started_at": iso(round(self.started * 1000)),
            "finished_at": None if self.finished is None else iso(round(self.finished * 1000)),
        }


class Operations:
    """The operations of one server: some run, the latest of the others are remembered."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app
        self._known: dict[str, Operation] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._numbers = itertools.count(1)

    def all(self) -> list[Operation]:
        """Return them, newest first."""
        return list(reversed(self._known.values()))

    def get(self, id: str) -> Operation:
        """Return one."""
        if id not in self._known:
            raise Problem(404, "operation-missing", f"this server knows no operation {id!r} (any more)")
        return self._known[id]

    def start(self, order: Order) -> Operation:
        """Begin one in the background; what it does is done by whoever acts now, as its task inherits."""
        if len(self._tasks) >= MOST_RUNNING:
            raise Problem(
                429, "too-many-operations", f"{MOST_RUNNING} operations run already: wait for one, or stop it",
                headers={"Retry-After": "5"},
            )  # fmt: skip
        made = Operation(id=f"{next(self._numbers)}-{os.urandom(8).hex()}", order=order, started=time.time())
        self._known[made.id] = made
        self._forget()
        task = self._tasks[made.id] = asyncio.create_task(self._run(made))
        task.add_done_callback(lambda _: self._tasks.pop(made.id, None))
        return made

    async def close(self) -> None:
        """Stop all of them."""
        for id in tuple(self._tasks):
            self._known[id].stop = True
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _forget(self) -> None:
        over = [id for id, known in self._known.items() if known.state != "running"]
        for id in over[: max(0, len(self._known) - KEPT)]:
            del self._known[id]

    async def _run(self, operation: Operation) -> None:
        try:
            async for jobs in self._pages(operation):
                await self._page(operation, jobs)
            operation.state = "stopped" if operation.stop else "done"
        except HoldfastError as error:
            operation.state, operation.error = "failed", str(error)
        except Exception as error:
            log.exception("operation_failed: %s of many jobs", operation.order.action)
            operation.state, operation.error = "failed", f"{type(error).__name__}: see the server's log"
        operation.finished = time.time()

    async def _pages(self, operation: Operation) -> AsyncIterator[list[JobRecord]]:
        """Yield the jobs that match, newest first, until all were seen, the limit is reached or it is stopped."""
        order, cursor = operation.order, None
        by_ids = "ids" in order.filter
        while not operation.stop:
            page = await self._app.jobs(limit=PAGE, cursor=cursor, **order.filter)
            found = [job for job in page.jobs if _is_meant(job, order.action)]
            left = order.limit - operation.matched
            operation.more = len(found) > left or (len(found) == left and page.cursor is not None)
            jobs = found[:left]
            operation.matched += len(jobs)
            for job in jobs[: SAMPLE - len(operation.sample)]:
                operation.sample.append({"queue": job.queue, "id": job.id, "run": job.run})
            if jobs:
                yield jobs
            cursor = page.cursor
            if cursor is None or by_ids or operation.more:
                return

    async def _page(self, operation: Operation, jobs: list[JobRecord]) -> None:
        if operation.order.dry_run:
            return
        if operation.order.action == "requeue":
            await self._requeue(operation, jobs)
            return
        act = self._actions()[operation.order.action]
        for first in range(0, len(jobs), AT_ONCE):
            if operation.stop:
                return
            some = jobs[first : first + AT_ONCE]
            for happened in await asyncio.gather(*(act(job, operation.order) for job in some)):
                operation.done += happened
                operation.refused += not happened

    async def _requeue(self, operation: Operation, jobs: list[JobRecord]) -> None:
        for queue in dict.fromkeys(job.queue for job in jobs):
            ids = list(dict.fromkeys(job.id for job in jobs if job.queue == queue))
            started = await self._app.requeue(*ids, queue=queue, limit=len(ids))
            operation.done += len(started)
            operation.refused += len(ids) - len(started)

    def _actions(self) -> dict[str, Callable[[JobRecord, Order], Awaitable[bool]]]:
        client = self._app.client

        async def cancel(job: JobRecord, order: Order) -> bool:
            found = await client.cancel(job.queue, job.id, order.running)
            return found.reply is Reply.OK and not (found.runs_on and not found.successor)

        async def promote(job: JobRecord, order: Order) -> bool:
            return await client.promote(job.queue, job.id) is Reply.OK

        async def delete(job: JobRecord, order: Order) -> bool:
            now = await client.look.find(job.queue, job.id)
            same = now is not None and now.run == job.run
            return same and await client.delete(job.queue, job.id) is Reply.OK

        return {"cancel": cancel, "promote": promote, "delete": delete}


def _is_meant(job: JobRecord, action: Action) -> bool:
    """Return whether an action on the id of a job is one on this run.

    A run that no longer holds its id is history: whatever is done to the id is done to another run. One that was
    cancelled has let its id go, and can be run anew while nobody else has it.
    """
    return job.holds_id or (action == "requeue" and job.state is State.CANCELLED)
