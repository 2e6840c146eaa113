"""Transactions of the handlers in a process: in the store of their own app, under their worker's lease."""

from __future__ import annotations

import asyncio
import logging
import os

from ....app.task import Task
from ....errors import StoreError
from ....handler.block import refused
from ....handler.job import Job
from ....store.contract import Complete, Session, Settled
from ...call import Callee
from ...handler_transaction import HandlerTransaction, is_store_trouble
from .. import frames

log = logging.getLogger("holdfast")


class ChildTransactions:
    """One transaction for each running job that asked for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._open: dict[int, HandlerTransaction] = {}
        self.out_of_reach: dict[int, str] = {}
        """Apps whose store could not be opened in this process, and why."""

    def of(self, frame: frames.RunJob, callee: Callee | None) -> HandlerTransaction:
        """Return the transaction of a job; raise when it can have none."""
        if frame.number not in self._open:
            self._open[frame.number] = self._made(frame, callee)
        return self._open[frame.number]

    def _made(self, frame: frames.RunJob, callee: Callee | None) -> HandlerTransaction:
        what = "job.prepare() and job.complete()"
        if frame.session is None:
            raise refused(f"{what} need the store, to which a sandbox has no way; use another executor")
        if not isinstance(callee, Task) or callee.app is None:
            raise refused(f"{what} in a process need the task's own app, and a plain function has none; make it a task")
        if (why := self.out_of_reach.get(id(callee.app))) is not None:
            raise StoreError(f"{what}: the store could not be reached from this process: {why}")
        session = Session(id=frame.session, name="", host="", pid=os.getpid(), queues=(frame.claimed.lease.queue,))
        atomic = callee.setting("completion") == "atomic"
        return HandlerTransaction(callee.app.store, session, callee, self._loop, atomic=atomic)

    def has(self, number: int) -> bool:
        """True when the job asked for one."""
        return number in self._open

    def pop(self, number: int) -> None:
        """Forget the transaction of a job that is over."""
        self._open.pop(number, None)

    def done(self, number: int, job: Job) -> tuple[Complete, Settled] | None:
        """Return how a handler that returned completed its job itself; raise when its writes were undone or left."""
        transaction = self._open.get(number)
        if transaction is None:
            return None
        transaction.refuse_unfinished(job)
        return transaction.done

    def stands(self, number: int, job: Job, error: BaseException) -> tuple[Complete, Settled] | None:
        """Return how a handler that raised had completed its job before that."""
        transaction = self._open.get(number)
        if transaction is None or transaction.done is None:
            return None
        log.warning("raised_after_complete: %r is completed, which stands", job, exc_info=error)
        return transaction.done

    async def roll_back(self, number: int, error: BaseException) -> None:
        """Roll back what the handler left open."""
        if (transaction := self._open.get(number)) is not None:
            try:
                await transaction.roll_back(error)
            except BaseException:
                log.exception("rollback_failed: the database will roll the transaction back")

    def is_trouble(self, number: int, error: BaseException) -> bool:
        """True when the attempt ended since a store could not do something."""
        transaction = self._open.get(number)
        return is_store_trouble(error, None if transaction is None else transaction.undone)
