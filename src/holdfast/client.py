"""Producing, waiting and inspecting: everything that needs a store but no handler."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar, cast

import msgspec

from .core.duration import Duration, to_ms
from .core.event import Event
from .core.job import JobRecord, Progress
from .core.state import State
from .core.transition import Reply
from .errors import ConfigError, JobCancelled, JobFailed, JobMissing, JobTimeout, StoreClosed
from .hook import Happening, Hooks
from .store.contract import (
    Answer,
    Cancelled,
    ChainPage,
    ChainRecord,
    Conflict,
    Deleted,
    Filter,
    Finished,
    JobPage,
    Listener,
    NewJob,
    QueueInfo,
    Running,
    SessionInfo,
    Status,
    Store,
    Transactional,
)

R = TypeVar("R")
DEFAULT_WAIT = 30.0
POLL = 1.0
MOST_EARLY = 10_000
Run = tuple[str, str, int]
Decode = Callable[[bytes], Any]
OnProgress = Callable[[Progress], None]
OnGap = Callable[[int | None], None]
log = logging.getLogger("holdfast")

_prefix = os.urandom(6).hex()
_numbers = itertools.count()


def _new_prefix() -> None:
    global _prefix
    _prefix = os.urandom(6).hex()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_prefix)


def new_id() -> str:
    """Return an id that nobody else has. Later ones sort later, which keeps indexes small and quick."""
    return f"{time.time_ns() // 1_000_000:012x}{next(_numbers) & 0xFFFFFFFF:08x}{_prefix}"


class Handle(Generic[R]):
    """What an enqueue answered, and a way back to the job.

    status: "queued" (new), "duplicate" (another holds the id), "completed" (with its cached result),
    "updated", "successor" (runs after the active one), "requeued" (a failed one, started again) or, among
    many, "refused" (a later job of a chain, which cannot be updated).
    """

    __slots__ = ("_answer", "_client", "_decode", "_watched", "queue")

    def __init__(self, client: Client, queue: str, answer: Answer, decode: Decode, watched: bool = False) -> None:
        self._client = client
        self._answer = answer
        self._decode = decode
        self._watched = watched
        self.queue = queue

    def __repr__(self) -> str:
        return f"<Handle {self.queue}/{self.id} run {self.run}: {self.status}>"

    @property
    def status(self) -> Status:
        """What became of the enqueue."""
        return self._answer.status

    @property
    def id(self) -> str:
        """The job's id."""
        return self._answer.id

    @property
    def run(self) -> int:
        """The run that answers: the new one, or the one that was there."""
        return self._answer.run

    @property
    def state(self) -> State:
        """The state of that run when the enqueue was answered."""
        return self._answer.state

    async def result(self, timeout: Duration | None = DEFAULT_WAIT, *, on_progress: OnProgress | None = None) -> R:
        """Return the result of the run, or of the chain that it began, waiting for it.

        Raise when it fails, is cancelled or takes too long.

        `on_progress` is called with what the handler reports meanwhile.
        """
        data = await self._client.wait(self.queue, self.id, self.run, timeout, self._answer, self._watched, on_progress)
        value: R = self._decode(data)
        return value

    async def job(self) -> JobRecord:
        """Return the run as it stands now."""
        return await self._client.status(self.queue, self.id, self.run)

    async def chain(self) -> ChainRecord:
        """Return the chain of the run as it stands now."""
        return await self._client.chain(self.queue, self.id, self.run)

    async def cancel(self, running: Running = "refuse") -> Cancelled:
        """The job is cancelled, or the answer says why not."""
        return await self._client.cancel(self.queue, self.id, running)


class Client:
    """Talks to one store, in one event loop."""

    def __init__(self, store: Store, hooks: Hooks) -> None:
        self.store = store
        self.hooks = hooks
        self._listener: Listener | None = None
        self._waiters: dict[Run, set[asyncio.Future[bool]]] = {}
        self._early: dict[Run, None] = {}
        """Ends that were heard of before the answer to the enqueue, and so before anybody waited."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opened = 0

    async def open(self) -> None:
        """The store can be used. May be nested."""
        await self.store.open()
        self._loop = asyncio.get_running_loop()
        self._opened += 1

    async def close(self) -> None:
        """Nothing is held open, once every `open` has its `close`."""
        self._opened -= 1
        if self._opened == 0 and self._listener is not None:
            self._listener.close()
            self._listener = None
        await self.store.close()

    async def listener(self) -> Listener:
        """Return the one ear of this client, for all who wait."""
        if self._opened == 0:
            raise StoreClosed("the app is not open; use it inside `async with app:`")
        if self._loop is not None and self._loop is not asyncio.get_running_loop():
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.listener(), self._loop))
        if self._listener is None:
            made = await self.store.listen(lambda: None, self._on_finished)
            if self._listener is None:
                self._listener = made
            else:
                made.close()  # another caller was quicker
        return self._listener

    def _on_finished(self, finished: Finished) -> None:
        run = (finished.queue, finished.id, finished.run)
        waiters = self._waiters.get(run)
        if waiters is None:
            self._note_early(run)
            return
        for future in tuple(waiters):
            if future.get_loop() is self._loop:
                _wake(future)
            else:  # a coroutine that a worker runs in a thread waits in a loop of its own
                with suppress(RuntimeError):
                    future.get_loop().call_soon_threadsafe(_wake, future)

    def _note_early(self, run: Run) -> None:
        self._early[run] = None
        if len(self._early) > MOST_EARLY:  # most of them nobody waits for any more
            del self._early[next(iter(self._early))]

    async def enqueue(self, queue: str, jobs: Sequence[NewJob], conflict: Conflict) -> list[Answer]:
        """Every job has its answer."""
        answers = await self.store.enqueue(queue, jobs, conflict, _request(jobs))
        if any(self.hooks.wanted(name) for name in ("enqueue", "requeue", "update")):
            for answer in answers:
                if answer.status in ("queued", "requeued", "updated", "successor"):
                    self.hooks.tell(_enqueued(queue, answer))
        return answers

    def enqueue_in(
        self, connection: Any, queue: str, jobs: Sequence[NewJob], conflict: Conflict
    ) -> list[Answer] | Awaitable[list[Answer]]:
        """Every job has its answer, in the caller's own transaction. Hooks are not told: it may be rolled back."""
        return transactional(self.store, "connection=").join(connection).enqueue(queue, jobs, conflict)

    async def wait(
        self,
        queue: str,
        id: str,
        run: int,
        timeout: Duration | None,
        known: Answer | None = None,
        watched: bool = False,
        on_progress: OnProgress | None = None,
    ) -> bytes:
        """Return the encoded result of a run and the chain it belongs to, once there is one; raise when there is none.

        `watched` says that its enqueue registered this client's listener already.
        """
        if known is not None and known.state is State.COMPLETED and known.result is not None:
            return known.result
        seconds = None if timeout is None else to_ms(timeout, "timeout") / 1000
        deadline = None if seconds is None else time.monotonic() + seconds
        over = known is not None and known.state.finished
        record = await self._until_finished((queue, id, run), seconds, watched, over, on_progress)
        if record is not None and record.continued and record.position and record.chain is not None:
            chain, left = record.chain, None if deadline is None else max(0.0, deadline - time.monotonic())
            return await self.wait(chain.queue, chain.id, chain.run, left)
        return _result(queue, id, run, record)

    async def _until_finished(
        self, which: Run, timeout: float | None, watched: bool, heard: bool, on_progress: OnProgress | None
    ) -> JobRecord | None:
        """Return the record of a run that is over. A lost notification costs a poll."""
        listener = await self.listener()
        waiters = self._waiters.setdefault(which, set())
        future = _waiter(waiters)
        deadline = None if timeout is None else time.monotonic() + timeout
        heard = heard or which in self._early or (watched and on_progress is not None)
        self._early.pop(which, None)
        try:
            while True:
                over = not (watched or heard) and not await self.store.watch(listener, *which)
                record = await self.store.get(*which) if heard or over else None
                if (over and record is None) or (record is not None and record.outcome.finished):
                    return record
                if record is not None and record.progress is not None and on_progress is not None:
                    on_progress(record.progress)
                watched = False
                left = POLL if deadline is None else min(POLL, deadline - time.monotonic())
                if left <= 0:
                    raise JobTimeout(
                        f"{which[0]}/{which[1]} gave no result within {timeout:g} s; it goes on, ask again later",
                        queue=which[0], job_id=which[1], run=which[2],
                    )  # fmt: skip
                heard = await _hear(future, left)
                waiters.discard(future)
                future = _waiter(waiters)  # whatever is said from now on is heard, too
        finally:
            waiters.discard(future)
            if not waiters:
                self._waiters.pop(which, None)

    async def find(self, queue: str, id: str, run: int | None = None) -> JobRecord | None:
        """Return a job as it stands, or `None`."""
        return await self.store.get(queue, id, run)

    async def status(self, queue: str, id: str, run: int | None = None) -> JobRecord:
        """Return a job as it stands; raise when there is none."""
        record = await self.store.get(queue, id, run)
        if record is None:
            raise missing(queue, id, run)
        return record

    async def cancel(self, queue: str, id: str, running: Running = "refuse") -> Cancelled:
        """The job and its successor are cancelled, or the answer says why not."""
        if running not in ("refuse", "signal", "kill"):
            raise ConfigError(f'running={running!r}: "refuse", "signal" or "kill"')
        answer = await self.store.cancel(queue, id, running, new_id())
        while answer.state is State.COMPLETED:  # the first job of a chain that goes on: its current one is meant
            chain = await self.store.chain(queue, id, answer.run)
            if chain is None or chain.state.finished or chain.position == 0:
                break
            current = chain.current
            later = await self.store.cancel(current.queue, current.id, running, new_id())
            answer = msgspec.structs.replace(later, successor=later.successor or answer.successor)
        if answer.reply is Reply.OK and not answer.signalled:
            self._tell("cancel", queue, id, answer.run, "cancelled")
        return answer

    async def promote(self, queue: str, id: str) -> Reply:
        """A scheduled job may run now."""
        reply = await self.store.promote(queue, id)
        if reply is Reply.OK:
            self._tell("promote", queue, id, None, "waiting")
        return reply

    async def delete(self, queue: str, id: str) -> Reply:
        """The job is gone, in whatever state it was."""
        reply = await self.store.delete(queue, id)
        if reply is Reply.OK:
            self._tell("delete", queue, id, None, None)
        return reply

    async def complete_chain(
        self, queue: str, id: str, run: int | None, result: bytes, result_ttl_ms: int | None = None
    ) -> Reply:
        """The chain is over with this result, whoever works on its current job."""
        reply = await self.store.complete_chain(queue, id, run, result, result_ttl_ms, new_id())
        if reply is Reply.OK:
            self._tell("complete", queue, id, run, "completed")
        return reply

    async def chain(self, queue: str, id: str, run: int | None = None) -> ChainRecord:
        """Return the chain of a job; raise when there is none."""
        record = await self.store.chain(queue, id, run)
        if record is None:
            raise missing(queue, id, run)
        return record

    async def chains(self, which: Filter, limit: int = 50, cursor: str | None = None) -> ChainPage:
        """Return chains of more than one job, newest first."""
        if type(limit) is not int or limit < 1:
            raise ConfigError(f"limit={limit!r}: a whole number from 1")
        return await self.store.chains(which, limit=limit, cursor=cursor)

    async def delete_chain(self, queue: str, id: str, run: int | None = None, cascade: bool = False) -> Deleted:
        """Every job of the chain is gone, or the answer says who waits for it."""
        deleted = await self.store.delete_chain(queue, id, run, cascade)
        if deleted.reply is Reply.OK:
            self._tell("delete", queue, id, run, None)
        return deleted

    async def requeue(self, which: Filter, limit: int, dry_run: bool) -> list[tuple[str, str, int]]:
        """Finished jobs that match run anew: (queue, id, run) of each."""
        started = await self.store.requeue(which, limit=limit, dry_run=dry_run, request=None if dry_run else new_id())
        for queue, id, run in () if dry_run else started:
            self._tell("requeue", queue, id, run, "waiting")
        return started

    def _tell(self, name: str, queue: str, id: str, run: int | None, state: str | None) -> None:
        if self.hooks.wanted(name):
            self.hooks.tell(Happening(name=name, queue=queue, id=id, run=run, state=state))

    async def jobs(self, which: Filter, limit: int = 50, cursor: str | None = None) -> JobPage:
        """Return jobs that match, newest first."""
        if type(limit) is not int or limit < 1:
            raise ConfigError(f"limit={limit!r}: a whole number from 1")
        return await self.store.jobs(which, limit=limit, cursor=cursor)

    async def queues(self) -> list[QueueInfo]:
        """Return every queue that the store knows."""
        return await self.store.queues()

    async def workers(self) -> list[SessionInfo]:
        """Return every worker that the store knows."""
        return await self.store.sessions()

    async def events(
        self,
        *,
        after: str | None = None,
        queue: str | None = None,
        id: str | None = None,
        follow: bool = False,
        on_gap: OnGap | None = None,
    ) -> AsyncIterator[Event]:
        """Yield events in commit order, from the beginning or after a position; `after="end"` is from now on."""
        position = after
        while True:
            page = await self.store.events(position, queue=queue, id=id)
            position = page.position
            if page.gap or page.reset:
                (on_gap or _warn_of_gap)(None if page.reset else page.gap)
            for event in page.events:
                yield event
            if not page.events:
                if not follow:
                    return
                await asyncio.sleep(0.2)


async def handed_over(
    client: Client, queue: str, answers: list[Answer] | Awaitable[list[Answer]], decode: Decode
) -> Handle[Any]:
    """Return the handle of a job that was taken in by a caller's connection, or is now."""
    found = answers if isinstance(answers, list) else await answers
    return Handle(client, queue, found[0], decode)


def transactional(store: Store, what: str) -> Transactional:
    """Return the store as one with transactions, or say that it has none."""
    if not store.transactional:
        raise ConfigError(
            f"{what}: {store.url.partition('://')[0]}:// has no transactions that a caller could share; "
            "PostgreSQL and SQLite files have"
        )
    return cast(Transactional, store)


def _waiter(waiters: set[asyncio.Future[bool]]) -> asyncio.Future[bool]:
    future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    waiters.add(future)
    return future


async def _hear(future: asyncio.Future[bool], seconds: float) -> bool:
    """Return when the waiter is woken (True), or after so many seconds (False)."""
    timer = asyncio.get_running_loop().call_later(seconds, _wake, future, False)
    try:
        return await future
    finally:
        timer.cancel()


def _wake(future: asyncio.Future[bool], heard: bool = True) -> None:
    if not future.done():
        future.set_result(heard)


def _request(jobs: Sequence[NewJob]) -> str | None:
    """Return a request id. Generated ids are their own: a repeat finds them there."""
    return None if all(job.fresh for job in jobs) else new_id()


def _warn_of_gap(missed: int | None) -> None:
    if missed is None:
        log.warning("the event log is another one than the position was made for: reading it from its start")
    else:
        log.warning("%d events were trimmed before they could be read", missed)


def refuse_update(queue: str, answer: Answer) -> None:
    """Raise when an update was refused, so that no dispatch is dropped unheard."""
    if answer.status == "refused":
        raise ConfigError(
            f'{queue}/{answer.id} is a later job of a chain, which on_conflict="update" cannot change: '
            "give your job another id"
        )


def _enqueued(queue: str, answer: Answer) -> Happening:
    name = {"queued": "enqueue", "requeued": "requeue"}.get(answer.status, "update")
    return Happening(name=name, queue=queue, id=answer.id, run=answer.run, state=answer.state)


def missing(queue: str, id: str, run: int | None = None) -> JobMissing:
    """Return the error for a job that is not there."""
    which = f"{queue}/{id}" + (f" run {run}" if run is not None else "")
    return JobMissing(
        f"there is no job {which}, or it has expired; `holdfast jobs` lists those there are",
        queue=queue, job_id=id, run=run,
    )  # fmt: skip


def _result(queue: str, id: str, run: int, record: JobRecord | None) -> bytes:
    if record is None:
        raise missing(queue, id, run)
    if record.outcome is State.COMPLETED and record.result is not None:
        return record.result
    if record.outcome is State.CANCELLED:
        raise JobCancelled(f"{queue}/{id} was cancelled", queue=queue, job_id=id, run=run)
    error = record.error
    told = f"{error.type}: {error.message}" if error else "no error was stored"
    raise JobFailed(f"{queue}/{id} failed: {told}", error=error, queue=queue, job_id=id, run=run)
