"""A handler's own writes and the completion of its job, in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, contextmanager, nullcontext
from typing import Any

from ..app.task import AnyTask
from ..client import transactional
from ..core.state import State
from ..core.transition import Reply
from ..errors import Aborted, ConfigError, LeaseLost, LogGap, StoreClosed, StoreError
from ..handler.block import Block, refused
from ..handler.job import Completion, Job, Transaction
from ..store.contract import ENDED, Abort, Complete, Opened, Session, Settled, Store
from .call import completed, pass_producers

VOID: frozenset[Abort | None] = frozenset({"lease_lost", "deleted", "completed_elsewhere"})
"""Reasons after which no outcome of the attempt counts."""


class HandlerTransaction:
    """The transaction in which one attempt writes and completes its job; `done` says how it completed it."""

    __slots__ = (
        "_atomic",
        "_block",
        "_handler",
        "_kept",
        "_loop",
        "_opened",
        "_prepared",
        "_store",
        "done",
        "session",
        "undone",
    )  # fmt: skip

    def __init__(
        self, store: Store, session: Session, handler: AnyTask, loop: asyncio.AbstractEventLoop, *, atomic: bool
    ) -> None:
        self._store = store
        self.session = session
        self._handler = handler
        self._atomic = atomic
        self._loop = loop
        self._kept = AsyncExitStack()
        """Holds the transaction of an atomic attempt, from `prepare` to the end of `complete`."""
        self._opened: Opened | None = None
        self._prepared = False
        """The block of `prepare` was left without an error. An atomic attempt must then end with its transaction."""
        self._block: str | None = None
        """The block that is open."""
        self.undone: BaseException | None = None
        """The exception that left the block of `complete` and undid its writes."""
        self.done: tuple[Complete, Settled] | None = None

    def prepare(self, job: Job) -> Block[Transaction]:
        """Return the block of a transaction: staged, it is committed with it; atomic, it goes on in `complete`."""
        return Block("job.prepare()", self._loop, lambda in_thread: self._prepare(job, in_thread))

    def complete(self, job: Job, result: object) -> Block[Completion]:
        """Return the block of a transaction: at its end the job is completed in it, and it is committed."""
        return Block("job.complete()", self._loop, lambda in_thread: self._complete(job, result, in_thread))

    @asynccontextmanager
    async def _prepare(self, job: Job, in_thread: bool) -> AsyncIterator[Transaction]:
        with self._entered(job, "job.prepare()"):
            if self._prepared:
                raise ConfigError(f"{job!r} has prepared already; an attempt has one job.prepare()")
            if self._atomic:
                async with self._begun() as opened:
                    with _usable(opened, in_thread) as connection:
                        yield Transaction(connection)
            else:
                async with transactional(self._store, "job.prepare()").begin() as opened:
                    with _usable(opened, in_thread) as connection:
                        yield Transaction(connection)
            self._prepared = True

    @asynccontextmanager
    async def _begun(self) -> AsyncIterator[Opened]:
        """Yield the transaction of an atomic attempt, undone even if the handler catches what its block raised."""
        self._opened = await self._kept.enter_async_context(transactional(self._store, "job.prepare()").begin())
        try:
            yield self._opened
        except BaseException as error:
            self._prepared = True
            await self.roll_back(error)
            raise

    @asynccontextmanager
    async def _complete(self, job: Job, result: object, in_thread: bool) -> AsyncIterator[Completion]:
        with self._entered(job, "job.complete()"):
            if self._atomic and self._opened is None:
                raise ConfigError(f'{job!r}: completion="atomic" begins with job.prepare()')
            done = None
            try:
                async with self._kept:
                    opened = await self._continued()
                    with _usable(opened, in_thread) as connection:
                        completion = Completion(connection, result)
                        yield completion
                    entry = completed(job, await pass_producers(completion.result), self._handler)
                    done = entry, await self._settle(job, opened, entry)
                if done is None:  # the driver took what was raised for a wish to roll back
                    raise ConfigError(ENDED)
            except BaseException as error:
                self.undone = error
                raise
            self.done, self.undone = done, None

    @contextmanager
    def _entered(self, job: Job, what: str) -> Iterator[None]:
        """Refuse the block while another is open."""
        self._check(job, what)
        self._block = what
        try:
            yield
        finally:
            self._block = None

    async def _continued(self) -> Opened:
        """Return the transaction that was prepared, or a new one; it ends with `_kept`."""
        prepared, self._opened = self._opened, None
        if prepared is not None:
            return prepared
        return await self._kept.enter_async_context(transactional(self._store, "job.complete()").begin())

    async def _settle(self, job: Job, opened: Opened, entry: Complete) -> Settled:
        self._refuse_when_over(job)
        settled = await opened.settle(self.session, entry)
        if settled.reply is not Reply.OK:
            raise LeaseLost(f"{job!r} is no longer held by this worker ({settled.reply}): its writes are undone")
        if settled.state is State.CANCELLED:
            raise Aborted("cancelled")  # which undoes its writes: a chain that was cancelled does not go on
        return settled

    def _check(self, job: Job, what: str) -> None:
        try:
            transactional(self._store, what)
        except ConfigError as error:
            raise refused(str(error)) from None
        if self._block is not None:
            raise ConfigError(f"{job!r}: {what} inside the block of {self._block}; leave that one first")
        if self.done is not None:
            raise ConfigError(f"{job!r} is completed already; {what} comes before that, and once")
        self._refuse_when_over(job)

    def _refuse_when_over(self, job: Job) -> None:
        """Refuse to write for an attempt whose outcome does not count."""
        if job.abort_reason in VOID:
            raise LeaseLost(f"{job!r} is no longer held by this worker ({job.abort_reason}): its writes are undone")
        if job.abort_reason == "timeout":
            raise Aborted(f"{job!r} ran for longer than its time-out: its writes are undone")

    def refuse_unfinished(self, job: Job) -> None:
        """Raise when the handler returned normally although its writes were undone or left open."""
        if self.done is not None:
            return
        if self.undone is not None:
            raise self.undone
        if self._atomic and self._prepared:
            raise ConfigError(f"{job!r} returned after job.prepare() without job.complete(): its writes are undone")

    async def roll_back(self, error: BaseException) -> None:
        """Roll back what an atomic attempt prepared and did not complete."""
        if self.done is None and self._opened is not None:
            self._opened = None
            await self._kept.__aexit__(type(error), error, error.__traceback__)


def _usable(opened: Opened, in_thread: bool) -> AbstractContextManager[Any]:
    """Return the driver's connection, in the form that a coroutine or a thread can use."""
    return opened.blocking() if in_thread else nullcontext(opened.connection)


def is_store_trouble(error: BaseException, undone: BaseException | None) -> bool:
    """True when an attempt ended because a store was in trouble: that costs the job a release, not a failure.

    `undone` left the block of `job.complete()`; a handler that raises its own error from it raises the same.
    """
    if isinstance(undone, StoreError) and undone in _chain(error):
        return True
    return isinstance(error, StoreError) and not isinstance(error, StoreClosed | LogGap)


def _chain(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found
