"""The end of a worker's run: why it ends, and how handlers that still run get time, a signal, and are handed back."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from ..app.hooks import HookEvent, Hooks
from ..errors import StoreError
from ..store.contract import Session, SessionCommand, Store
from .outcomes import ExitReason, Report
from .recovery import Recovery
from .runner import Runner
from .turns.choice import PendingTurns
from .turns.wakeups import Alarm

log = logging.getLogger("holdfast")


class WorkerExit:
    """Why a run ends: told once when it begins to end, and once more when it was not asked to."""

    def __init__(
        self, hooks: Hooks, name: str, runner: Runner, report: Report, stop: Callable[[bool, str], object]
    ) -> None:
        self._hooks = hooks
        self._name = name
        self._runner = runner
        self._report = report
        self._stop = stop
        """Stops the worker: with or without a drain, and why."""
        self._begun = False

    def begin(self, why: str) -> None:
        """Tell hooks that the worker claims no more jobs."""
        if not self._begun:
            self._begun = True
            self._hooks.tell(HookEvent(name="worker_stopping", worker=self._name, detail=why))

    def unasked(self, why: ExitReason, error: BaseException | None = None) -> None:
        """Report that the worker ends unasked, or before all its outcomes were settled."""
        self.begin(why)
        if self._report.out is None:
            self._report.out = why
            self._hooks.tell(HookEvent(name="worker_out", worker=self._name, detail=why, error=error))

    def commanded(self, command: SessionCommand) -> None:
        """Stop the worker as it was told through the store. It is told with every heartbeat, which changes nothing."""
        self._stop(command == "drain", "command")

    def stuck(self) -> None:
        """End the worker, and its process with it, as a thread is stuck."""
        log.error("handler_stuck: a thread did not return after its time-out: this worker ends, to be started again")
        self.unasked("stuck")
        self._stop(True, "stuck")

    def store_lost(self) -> None:
        """Tell handlers that others may soon have their jobs. What they complete all the same counts until then."""
        log.error("store_lost: %s was not answered for nearly a lease: its handlers are told to stop", self._name)
        self._hooks.tell(HookEvent(name="store_lost", worker=self._name))
        self._runner.abort_all("store_lost")

    def store_too_new(self, error: Exception) -> None:
        """End the worker without a drain: nothing can be settled in a store of a newer version."""
        if self._report.out is not None:
            return
        self.unasked("store_too_new", error)
        self._runner.abort_all("store_lost")
        self._stop(False, "store_too_new")


class Shutdown:
    """Drain, then tell handlers to stop, then hand back the jobs of those that do not."""

    def __init__(
        self, runner: Runner, recovery: Recovery, pending: PendingTurns, alarm: Alarm, drain: float, grace: float
    ) -> None:
        self._runner = runner
        self._recovery = recovery
        self._pending = pending
        self._alarm = alarm
        self._drain = drain
        self._grace = grace
        self.hurry = asyncio.Event()
        """Set to end the drain at once."""

    async def run(self) -> None:
        """Return when nothing runs any more, or all that does is handed back."""
        runner, grace = self._runner, self._grace
        over = time.monotonic() + self._drain
        await _first(min(grace, self._drain), runner.drained, self.hurry)
        self._pending.write_off_claims()  # of a store that has not answered by now
        runner.note_drained()
        await _first(max(0.0, over - time.monotonic()), runner.drained, self.hurry)
        if runner.running:
            log.warning("handlers_told: %d handlers still run: telling them to stop", len(runner.running))
            runner.abort_all("shutdown")
            await _first(grace, runner.drained)
        if runner.running:
            log.warning("handlers_given_up: %d handlers do not stop: their jobs are handed back", len(runner.running))
            runner.give_up_all()
            await _first(grace, runner.drained)
        if runner.running:
            runner.abandon_all()
        self._set_last_try()
        self._alarm.ring()

    async def at_once(self, pumping: asyncio.Task[None]) -> None:
        """Hand back all jobs without a drain, as the worker itself was cancelled."""
        self._runner.accepting = False
        self._set_last_try()
        self._runner.abort_all("shutdown")
        self._runner.give_up_all()
        await asyncio.wait([pumping], timeout=self._grace)
        pumping.cancel()

    def _set_last_try(self) -> None:
        self._recovery.last_try = time.monotonic() + self._grace
        self._runner.starting = False


async def leave(store: Store, session: Session, patience: float) -> None:
    """End the session, unless the store does not answer for so many seconds."""
    try:
        async with asyncio.timeout(patience):
            await store.leave(session)
    except (StoreError, TimeoutError) as error:
        told = str(error) or f"the store did not answer for {patience:g} s"
        log.warning("leave_failed: the session ends when its lease is over: %s", told)


async def _first(seconds: float, *events: asyncio.Event) -> None:
    """Return when one of the events is set, or the time is over."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waiting:
            wait.cancel()
