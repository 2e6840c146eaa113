"""What producers and operators do, with a store and no handler."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import cast

import msgspec

from ..app.hooks import HookEvent, Hooks
from ..core.chain import ChainRef
from ..core.duration import Duration
from ..core.state import FINISHED, PENDING, State
from ..core.transition import Reply
from ..core.word import check_words
from ..errors import ConfigError, StoreClosed
from ..store.contract import (
    KEEP,
    Answer,
    CancelResult,
    Conflict,
    DeleteResult,
    Filter,
    Joined,
    Listener,
    NewJob,
    Running,
    Session,
    SessionCommand,
    Store,
    Transactional,
)
from ..telemetry import traces
from .calls import Calls
from .chains import delete_all
from .handle import CoroutineOf, refuse_update
from .look import Look, check_filter, checked_limit, checked_run
from .options import new_id
from .outgoing import Producers
from .pending import Pending
from .unopened import Open, UnopenedStore
from .wait import OnProgress, Waiting

ENQUEUE_EVENTS = frozenset({"enqueue", "requeue", "update"})
"""The hooks that hear what became of an enqueue."""


class Client:
    """Talks to one store, in one event loop."""

    def __init__(self, store: Store, hooks: Hooks) -> None:
        self.store = self._own = store
        """While the client is not open, it is the client's own store in a wrapper that has it opened."""
        self.look = Look(store)
        self.hooks = hooks
        self.producers = Producers()
        self.pending = Pending()
        self._waiting = Waiting(store)
        self._calls = Calls(self._enqueue_calls, self._waiting)
        self._opened = 0
        self._open_by_itself: Open = _refuse_unopened
        self.transaction_of_caller: Callable[[], object] | None = None
        """Returns the connection, or the `Joined`, of the transaction in which the caller stands; `None`: in none.
        A framework that has one transaction for each thread, such as Django, sets it."""

    def opened_by(self, open: Open) -> None:
        """Have the store opened so when something is asked of it that nobody has opened."""
        self._open_by_itself = open
        self.use(self._own)

    def use(self, store: Store) -> None:
        """Work on another store from now on. An open client may be given the same store in another wrapper only."""
        self._own = store
        shown = store if self._opened else cast(Store, UnopenedStore(store, self._open_by_itself))
        self.store = self.look.store = self._waiting.store = shown

    def forget(self, store: Store) -> None:
        """Be a client of this store that was never open: all that was open is another process's."""
        self._opened, self._waiting, self.pending = 0, Waiting(store), Pending()
        self._calls = Calls(self._enqueue_calls, self._waiting)
        self.use(store)

    async def open(self) -> None:
        """Open the store. May be nested."""
        await self._own.open()
        self._waiting.loop = asyncio.get_running_loop()
        if self._opened == 0:  # what was called in a loop that has ended is still under way there
            self._calls = Calls(self._enqueue_calls, self._waiting)
        self._opened += 1
        self.use(self._own)

    async def close(self) -> None:
        """Close the store, once every `open` has its `close`."""
        self._opened -= 1
        if self._opened == 0:
            self._waiting.close()
            self.use(self._own)
        await self._own.close()

    @property
    def listening(self) -> Listener | None:
        """The listener of this client, for all waiters; `None` where it is still to be made, or in another loop."""
        waiting = self._waiting
        return waiting.current if self._opened and waiting.loop is asyncio.get_running_loop() else None

    async def listener(self) -> Listener:
        """Return the one listener of this client, for all waiters."""
        if self._opened == 0:
            await self._open_by_itself()
        return await self._waiting.listener()

    async def enqueue(
        self,
        queue: str,
        jobs: Sequence[NewJob],
        conflict: Conflict,
        bulk: traces.Sending | None = None,
        *,
        passed: bool = False,
    ) -> list[Answer]:
        """Enqueue jobs; return an answer for each. `bulk`: they are part of many, which are sent together.

        `passed`: they have passed the producer middleware already.
        """
        if self.producers.middleware and not passed:
            return await self.producers.around(
                queue, jobs, lambda changed: self.enqueue(queue, changed, conflict, bulk, passed=True)
            )
        if bulk is not None:
            jobs = bulk.stamp(queue, jobs)
        elif (sending := traces.sending()) is not None:
            return await self._traced(sending, queue, jobs, conflict)
        answers = await self.store.enqueue(queue, jobs, conflict, _request(jobs))
        self.tell_enqueued(queue, jobs, answers)
        return answers

    def tell_enqueued(self, queue: str, jobs: Sequence[NewJob], answers: Sequence[Answer]) -> None:
        """Tell hooks what became of jobs that were enqueued."""
        if not ENQUEUE_EVENTS.isdisjoint(self.hooks.wanted):
            for job, answer in zip(jobs, answers, strict=True):
                if answer.status in ("queued", "requeued", "updated", "successor"):
                    self.hooks.tell(_enqueued(queue, job.task, answer))

    async def _traced(
        self, sending: traces.Sending, queue: str, jobs: Sequence[NewJob], conflict: Conflict
    ) -> list[Answer]:
        jobs = sending.stamp(queue, jobs)
        try:
            answers = await self.store.enqueue(queue, jobs, conflict, _request(jobs))
            self.tell_enqueued(queue, jobs, answers)
        except BaseException as error:
            sending.fail(error)
            raise
        sending.end(answers)
        return answers

    def connection(self, given: object) -> object:
        """Return the connection that takes jobs in: the one given, or that of the transaction of the caller."""
        if given is not None or self.transaction_of_caller is None:
            return given
        return self.transaction_of_caller()

    def enqueue_in(
        self,
        connection: object,
        queue: str,
        jobs: Sequence[NewJob],
        conflict: Conflict,
        bulk: traces.Sending | None = None,
    ) -> list[Answer] | Awaitable[list[Answer]]:
        """Enqueue jobs in the caller's own transaction. Hooks are not told: it may be rolled back."""
        joined = connection if isinstance(connection, Joined) else self._joined_to(connection)
        if not self.producers.middleware:
            return self._join(joined, queue, jobs, conflict, bulk)
        with ExitStack() as stack:
            jobs = self.producers.enter_here(queue, jobs, stack)
            answers = self._join(joined, queue, jobs, conflict, bulk)
            return answers if isinstance(answers, list) else _awaited(stack.pop_all(), answers)

    def _join(
        self, joined: Joined, queue: str, jobs: Sequence[NewJob], conflict: Conflict, bulk: traces.Sending | None
    ) -> list[Answer] | Awaitable[list[Answer]]:
        if bulk is not None:
            return joined.enqueue(queue, bulk.stamp(queue, jobs), conflict)
        if getattr(joined, "sends_later", False) or (sending := traces.sending()) is None:
            return joined.enqueue(queue, jobs, conflict)
        with traces.sent(sending):
            answers = joined.enqueue(queue, sending.stamp(queue, jobs), conflict)
            if not isinstance(answers, list):
                return traces.awaited(sending, answers)
            sending.end(answers)
        return answers

    def _joined_to(self, connection: object) -> Joined:
        return transactional(self.store, "connection=").join(connection)

    def call(
        self, listener: Listener, queue: str, job: NewJob, conflict: Conflict, timeout: Duration | None
    ) -> CoroutineOf[bytes]:
        """Enqueue a job that this client's listener watches; return the encoded result of its run and chain."""
        if (
            Calls.takes(job, conflict)
            and not self.producers.middleware
            and traces.sending() is None
            and self._waiting.loop is asyncio.get_running_loop()
        ):
            return self._calls.result(listener, queue, job, timeout)
        return self._call_alone(queue, job, conflict, timeout)

    async def _call_alone(self, queue: str, job: NewJob, conflict: Conflict, timeout: Duration | None) -> bytes:
        answer = (await self.enqueue(queue, [job], conflict))[0]
        if answer.status == "refused":
            refuse_update(queue, answer)
        return await self.wait(queue, answer.id, answer.run, timeout, answer, watched=True)

    async def _enqueue_calls(self, queue: str, jobs: Sequence[NewJob]) -> Sequence[Answer]:
        if self.listening is None:
            raise StoreClosed("the app was closed before this call was sent; keep it open until its callers have ended")
        answers = await self.store.enqueue(queue, jobs, KEEP, None)
        self.tell_enqueued(queue, jobs, answers)
        return answers

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
        listener = await self.listener()
        over = known is not None and known.state in FINISHED
        return await self._waiting.result(listener, (queue, id, run), timeout, watched, over, on_progress)

    async def cancel(self, queue: str, id: str, running: Running = "refuse") -> CancelResult:
        """Cancel a job and its successor, or return why not."""
        if running not in ("refuse", "signal", "kill"):
            raise ConfigError(f'running={running!r}: "refuse", "signal" or "kill"')
        check_words(queue=queue, job_id=id)
        answer = await self.store.cancel(queue, id, running, new_id())
        run = answer.run
        while answer.state is State.COMPLETED:  # its chain may go on where the store could not see it in one step
            chain = await self.store.chain(queue, id, run)
            if chain is None or chain.position == 0:
                break
            if chain.state.finished:
                answer = msgspec.structs.replace(answer, state=chain.state)
                break
            current = chain.current
            later = await self.store.cancel(current.queue, current.id, running, new_id())
            if later.state is State.COMPLETED:
                later = await self.store.cancel(queue, id, running, new_id())
            if answer.successor:
                later = msgspec.structs.replace(later, reply=Reply.OK, successor=True)
            answer = later
        if answer.state in PENDING:
            self._tell("cancel", queue, id, answer.run, "cancelled")
        return answer

    async def promote(self, queue: str, id: str) -> Reply:
        """Promote a scheduled job: it may run now."""
        check_words(queue=queue, job_id=id)
        reply = await self.store.promote(queue, id)
        if reply is Reply.OK:
            self._tell("promote", queue, id, None, "waiting")
        return reply

    async def delete(self, queue: str, id: str) -> Reply:
        """Delete a job, in whatever state it is."""
        check_words(queue=queue, job_id=id)
        reply = await self.store.delete(queue, id)
        if reply is Reply.OK:
            self._tell("delete", queue, id, None, None)
        return reply

    async def complete_chain(
        self, queue: str, id: str, run: int | None, result: bytes, result_ttl_ms: int | None = None
    ) -> Reply:
        """Complete a chain with this result, also while a worker holds its current job."""
        check_words(queue=queue, job_id=id)
        reply = await self.store.complete_chain(queue, id, checked_run(run), result, result_ttl_ms, new_id())
        if reply is Reply.OK:
            self._tell("complete", queue, id, run, "completed")
        return reply

    async def delete_chain(self, queue: str, id: str, run: int | None = None, cascade: bool = False) -> DeleteResult:
        """Delete every job of a chain, or return who waits for it."""
        check_words(queue=queue, job_id=id)
        deleted = await self.store.delete_chain(queue, id, checked_run(run), cascade)
        if deleted.reply is Reply.OK:
            self._tell("delete", queue, id, run, None)
        return deleted

    async def delete_chains(
        self, chains: Iterable[ChainRef | tuple[str, str]], cascade: bool = False
    ) -> list[DeleteResult]:
        """Delete chains; the answer of one that is refused says who waits for it that is not among them."""
        return await delete_all(chains, cascade, self.delete_chain, self.store.chain)

    async def requeue(self, which: Filter, limit: int, dry_run: bool) -> list[tuple[str, str, int]]:
        """Requeue finished jobs that match; return (queue, id, run) of each."""
        check_filter(which)
        checked_limit(limit)
        started = await self.store.requeue(which, limit=limit, dry_run=dry_run, request=None if dry_run else new_id())
        for queue, id, run in () if dry_run else started:
            self._tell("requeue", queue, id, run, "waiting")
        return started

    async def stop_worker(self, worker: str, drain: bool) -> list[str]:
        """Tell a worker, or all processes of one, to end; return the ids of the sessions that were told."""
        check_words(worker=worker)
        command: SessionCommand = "drain" if drain else "stop"
        found = [each.session for each in await self.store.sessions() if each.alive and is_meant(each.session, worker)]
        return [session.id for session in found if await self.store.command(session.id, command)]

    def _tell(self, name: str, queue: str, id: str, run: int | None, state: str | None) -> None:
        if name in self.hooks.wanted:
            self.hooks.tell(HookEvent(name=name, queue=queue, id=id, run=run, state=state))


async def _awaited(stack: ExitStack, answers: Awaitable[list[Answer]]) -> list[Answer]:
    with stack:
        return await answers


async def _refuse_unopened() -> None:
    raise StoreClosed("the app is not open; use it inside `async with app:`")


def transactional(store: Store, what: str) -> Transactional:
    """Return the store as one with transactions, or say that it has none."""
    if not store.transactional:
        raise ConfigError(
            f"{what}: {store.url.partition('://')[0]}:// has no transactions that a caller could share; "
            "PostgreSQL and SQLite files have"
        )
    return cast(Transactional, store)


def is_meant(session: Session, worker: str) -> bool:
    """Return whether a word means a session: its id, its worker's name, or that of the processes of which it is one."""
    base, _, number = session.name.rpartition("-")
    return worker in (session.id, session.name) or (worker == base and number.isdecimal())


def _request(jobs: Sequence[NewJob]) -> str | None:
    """Return a request id. Generated ids are their own: a repeat finds them there."""
    for job in jobs:
        if not job.fresh:
            return new_id()
    return None


def _enqueued(queue: str, task: str | None, answer: Answer) -> HookEvent:
    name = {"queued": "enqueue", "requeued": "requeue"}.get(answer.status, "update")
    return HookEvent(name=name, queue=queue, id=answer.id, run=answer.run, task=task, state=answer.state)
