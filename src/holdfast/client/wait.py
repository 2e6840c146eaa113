"""Wait for the end of a run, and its result."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from ..core.duration import Duration, to_ms
from ..core.job import JobRecord, Progress
from ..core.state import FINISHED, State
from ..errors import JobCancelled, JobFailed, JobTimeout, StoreError
from ..store.contract import Finished, Listener, Store
from ..store.deadlines import Deadlines
from ..store.other_loop import done_in
from ..store.prompt import Prompt
from .look import missing

DEFAULT_WAIT = 30.0
POLL = 1.0
MOST_EARLY = 10_000
Run = tuple[str, str, int]
Waiter = Prompt[Finished | None]
OnProgress = Callable[[Progress], None]


class Waiting:
    """The waiters of one client: each waits for a run, and one listener serves them all."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.current: Listener | None = None
        """The one listener, once somebody has asked for it."""
        self._waiters: dict[Run, set[Waiter]] = {}
        self._callers: dict[Run, Waiter] = {}
        """Those who wait in the loop of the client since their enqueue was answered. No two have the same run."""
        self._early: dict[Run, Finished] = {}
        """Ends that were heard of before the answer to the enqueue, and so before there was a waiter."""
        self.loop: asyncio.AbstractEventLoop | None = None
        self._deadlines: Deadlines | None = None
        """Those of the waiters in this loop."""
        self._leaving: dict[Run, asyncio.Task[None]] = {}
        """Tasks that tell the store that these runs have no waiter any more."""
        self._left: dict[Run, None] = {}
        """Runs that were waited for in vain: a watch that came with an enqueue may have been ended by that."""

    async def listener(self) -> Listener:
        """Return the one listener, which is in the loop of the client."""
        if self.current is not None and self.loop is asyncio.get_running_loop():
            return self.current
        if self.loop is not None and self.loop is not asyncio.get_running_loop():
            return await done_in(self.loop, self.listener())
        made = await self.store.listen(lambda: None, self._on_finished)
        if self.current is None:
            self.current = made
        else:
            made.close()  # another caller was quicker
        return self.current

    def close(self) -> None:
        """Close the listener."""
        for task in self._leaving.values():
            task.cancel()
        if self.current is not None:
            self.current.close()
            self.current = None

    def _on_finished(self, finished: Finished) -> None:
        run = (finished.queue, finished.id, finished.run)
        caller, waiters = self._callers.pop(run, None), self._waiters.get(run)
        if caller is not None:
            self.deadlines.discard(caller)
            caller.tell(finished)
        elif waiters is None:
            self._early[run] = finished
            if len(self._early) > MOST_EARLY:  # most of them have no waiter any more
                del self._early[next(iter(self._early))]
        for future in tuple(waiters or ()):
            if future.loop is self.loop:
                future.tell(finished)
            else:  # a coroutine that a worker runs in a thread waits in a loop of its own
                with suppress(RuntimeError):
                    future.loop.call_soon_threadsafe(future.tell, finished)

    @property
    def deadlines(self) -> Deadlines:
        """The deadlines of waiters in the loop of the client."""
        deadlines = self._deadlines
        if deadlines is None or deadlines.loop is not self.loop:
            assert self.loop is not None
            deadlines = self._deadlines = Deadlines(self.loop)
        return deadlines

    def expect(self, which: Run, caller: Waiter, until: float) -> None:
        """Tell a caller how a watched run ends; or None at this instant of the loop's clock.

        Nobody else calls for the run, and the caller is in the loop of the client.
        """
        told = self._early.pop(which, None)
        if told is not None:
            caller.tell(told)
        elif caller.done:  # it was cancelled before the answer came
            if self.current is not None:
                self._unwatch(self.current, which)
        else:
            self._callers[which] = caller
            self.deadlines.add_until(caller, until)

    def forget(self, listener: Listener, which: Run, caller: Waiter) -> None:
        """Tell a caller nothing more, and let the store know if it was cancelled."""
        self.deadlines.discard(caller)
        if self._callers.pop(which, None) is not None and caller.failed and which not in self._waiters:
            self._unwatch(listener, which)

    async def result(
        self,
        listener: Listener,
        which: Run,
        timeout: Duration | None,
        watched: bool = False,
        over: bool = False,
        on_progress: OnProgress | None = None,
        since: float | None = None,
    ) -> bytes:
        """Return the encoded result of a run and the chain it belongs to; raise when there is none.

        `watched`: the listener is registered already. `over`: it is known that the run has ended. `since`: when the
        time-out began, if not now.
        """
        seconds = seconds_of(timeout)
        deadline = None if seconds is None else (time.monotonic() if since is None else since) + seconds
        record = await self._until_finished(listener, which, seconds, deadline, watched, over, on_progress)
        if isinstance(record, bytes):
            return record
        if record is not None and record.continued and record.position and record.chain is not None:
            chain, left = record.chain, None if deadline is None else max(0.0, deadline - time.monotonic())
            return await self.result(listener, (chain.queue, chain.id, chain.run), left)
        return _result(which, record)

    async def _until_finished(
        self,
        listener: Listener,
        which: Run,
        timeout: float | None,
        deadline: float | None,
        watched: bool,
        over: bool,
        on_progress: OnProgress | None,
    ) -> JobRecord | bytes | None:
        """Return the record of a run that is over, or its result where that was told. A lost word costs a poll."""
        told = self._early.pop(which, None)
        watched = watched and which not in self._left
        waiters = self._waiters.setdefault(which, set())
        future = _waiter(waiters)
        look, over, shown = over or told is not None, False, None
        try:
            while True:
                if told is not None and told.result is not None:
                    over = True
                    return told.result
                gone = not (watched or look) and not await self._watch(listener, which)
                record = await self.store.get(*which) if look or gone or on_progress is not None else None
                if (gone and record is None) or (record is not None and record.outcome in FINISHED):
                    over = True
                    return record
                if record is not None and record.progress not in (None, shown) and on_progress is not None:
                    on_progress(shown := record.progress)
                watched = False
                left = POLL if deadline is None else min(POLL, deadline - time.monotonic())
                if left <= 0:
                    raise JobTimeout(
                        f"{which[0]}/{which[1]} gave no result within {timeout:g} s; it goes on, ask again later",
                        queue=which[0], job_id=which[1], run=which[2],
                    )  # fmt: skip
                told = await self._hear(future, left)
                look = told is not None
                waiters.discard(future)
                if told is None or told.result is None:
                    future = _waiter(waiters)  # whatever is said from now on is heard, too
        finally:
            waiters.discard(future)
            if not waiters:
                self._waiters.pop(which, None)
                if over:
                    self._left.pop(which, None)
                elif which not in self._callers:
                    self._unwatch(listener, which)

    async def _hear(self, future: Waiter, seconds: float) -> Finished | None:
        """Return what the waiter is told, or None after so many seconds."""
        deadlines = self._deadlines_of(future)
        deadlines.add(future, seconds)
        try:
            return await future
        finally:
            deadlines.discard(future)

    def _deadlines_of(self, waiter: Waiter) -> Deadlines:
        return self.deadlines if waiter.loop is self.loop else Deadlines(waiter.loop)

    async def _watch(self, listener: Listener, which: Run) -> bool:
        """The listener hears of the run's end; False when it has ended. A late `unwatch` must not end this watch."""
        if (leaving := self._leaving.get(which)) is None:
            pass
        elif asyncio.get_running_loop() is self.loop:
            await asyncio.wait([leaving])
        elif self.loop is not None:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asyncio.wait([leaving]), self.loop))
        return await self.store.watch(listener, *which)

    def _unwatch(self, listener: Listener, which: Run) -> None:
        """Tell the store, in the background, that the run has no waiter any more."""
        if self.loop is not None and asyncio.get_running_loop() is not self.loop:
            with suppress(RuntimeError):  # it is closed, and the listener with it
                self.loop.call_soon_threadsafe(self._unwatch, listener, which)
            return
        if listener is not self.current or which in self._leaving:
            return
        self._left[which] = None
        if len(self._left) > MOST_EARLY:
            del self._left[next(iter(self._left))]
        task = self._leaving[which] = asyncio.create_task(self._leave(listener, which))
        task.add_done_callback(lambda _: self._leaving.pop(which, None))

    async def _leave(self, listener: Listener, which: Run) -> None:
        with suppress(StoreError):  # a message without a receiver does no harm
            await self.store.unwatch(listener, *which)


def seconds_of(timeout: Duration | None) -> float | None:
    """Return how long a caller waits; None for ever."""
    if timeout == DEFAULT_WAIT:  # which needs no check
        return DEFAULT_WAIT
    return None if timeout is None else to_ms(timeout, "timeout") / 1000


def _waiter(waiters: set[Waiter]) -> Waiter:
    future: Waiter = Prompt(asyncio.get_running_loop())
    waiters.add(future)
    return future


def _result(which: Run, record: JobRecord | None) -> bytes:
    queue, id, run = which
    if record is None:
        raise missing(queue, id, run)
    if record.outcome is State.COMPLETED and record.result is not None:
        return record.result
    if record.outcome is State.CANCELLED:
        raise JobCancelled(f"{queue}/{id} was cancelled", queue=queue, job_id=id, run=run)
    error = record.error
    told = f"{error.type}: {error.message}" if error else "no error was stored"
    raise JobFailed(f"{queue}/{id} failed: {told}", error=error, queue=queue, job_id=id, run=run)
