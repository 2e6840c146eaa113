"""What happened lately in one store, followed from its event log and kept in bounded memory."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from ...core.visible import visible
from ...store.contract import EventPage, QueueInfo, SessionInfo, Store
from .attention import Concern, Seen, Thresholds, attention
from .chores import Chores
from .crowd import Crowd
from .depth import Depths
from .digest import digest
from .failures import Failures
from .kind import REQUEUED
from .listener import LogListener
from .options import RecentOptions
from .pace import Pace
from .records import TrafficRecords
from .start import first_page
from .view import Chart, DepthChart, FailureGroup, FollowState, LogBreak, RecentView, Step, TaskTraffic, Traffic

MOST_BREAKS = 20
SILENT = 5.0
"""When a read of the log takes so many seconds, the store is taken for away, before its own patience ends."""
CHORE_PAUSE = 4.0
"""Between two parts of the chores it pauses so many times as long as one took."""
log = logging.getLogger("holdfast.telemetry.recent")


class Recent:
    """Follows a store's log while it is open: `async with Recent(store) as recent`.

    One of it serves any number of readers. Reading it is a matter of memory alone, and never touches the store. Who
    wants the events themselves is its `listener`, so that the log is read once.
    """

    def __init__(self, store: Store, options: RecentOptions | None = None) -> None:
        self.options = options or RecentOptions()
        self._store = store
        self._records = TrafficRecords()
        self._failures = Failures()
        self._depths = Depths()
        self._chores = Chores(store, self.options, self._failures, self._depths)
        self._pace = Pace(self.options)
        self._crowd = Crowd()
        self._position: str | None = None
        self._since_ms: int | None = None
        self._last_ms = 0
        self._events = self._polls = 0
        self._trouble: str | None = None
        self._asked_at: float | None = None
        """Since when a read of the log is under way."""
        self._breaks: list[LogBreak] = []
        self._task: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()
        self.listener: LogListener | None = None
        self.is_crowded = False
        """There is more to read than was read, and other processes want the processor."""
        self.turn = 0
        """How many reads of the log have begun …"""
        self.end_turn = 0
        """… and the latest of them that came to its end."""

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def start(self) -> None:
        """Follow the log, in a task of this event loop, until `close`."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._follow(), name="holdfast-recent")

    async def close(self) -> None:
        """Follow no more. What was kept can still be read."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # --- following

    async def _follow(self) -> None:
        while True:
            began, paid, more = time.monotonic(), time.thread_time(), False
            try:
                full = await self.poll()
                more = await self._chores.some()
                self._trouble = None
            except Exception as error:  # whatever it is, following goes on: the store may come back
                self._tell(error)
                full = False
            await self._rest(time.monotonic() - began, time.thread_time() - paid, full, more)

    async def _rest(self, spent: float, cost: float, full: bool, more: bool) -> None:
        """Wait until it is time again: soon where chores are left, with as much of the time as they may have."""
        eager = self.listener is not None and self.listener.is_eager
        crowded = self.is_crowded = full and self._crowd.is_there()
        failed = bool(self._trouble)
        pause = self._pace.pause(spent, full=full, failed=failed, eager=eager, crowded=crowded, cost=cost)
        pause = min(pause, CHORE_PAUSE * spent) if more else pause
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), pause)
        self._woken.clear()

    def wake(self) -> None:
        """Read on now: somebody waits."""
        self._woken.set()

    def _tell(self, error: Exception) -> None:
        trouble = visible(f"{type(error).__name__}: {error}")
        if trouble != self._trouble:
            log.warning("recent_store_trouble: the event log cannot be read: %s", trouble)
        self._trouble = trouble

    async def poll(self) -> bool:
        """Read the next page; return whether it was full, so that more may be there already."""
        self.turn += 1
        self._asked_at = time.monotonic()
        try:
            page = await self._next_page()
        except Exception as error:
            if self.listener is not None:
                self.listener.lost(str(error))
            raise
        finally:
            self._asked_at = None
        self._position = page.position
        self._take(page)
        if self.listener is not None:
            self.listener.hear(page)
        full = self._pace.saw(len(page.events))
        if not full:
            self.end_turn = self.turn
        if self._pace.hopeless(full=full, lag_ms=self.now_ms - self._last_ms):
            await self._skip()
        return full

    async def _next_page(self) -> EventPage:
        if self._position is not None:
            return await self._store.events(self._position, limit=self.options.page)
        await self._chores.set_clock()
        return await first_page(self._store, self.options)

    def _take(self, page: EventPage) -> None:
        now_ms = self.now_ms
        if self._polls and page.gap:
            self._note_break(LogBreak(kind="gap", at_ms=now_ms, missed=page.gap))
        if page.reset:
            self._note_break(LogBreak(kind="reset", at_ms=now_ms))
        if page.events:
            added = digest(page.events, now_ms)
            self._records.add(added, now_ms // 1000)
            self._failures.add(added.errors)
            self._chores.dead_letters_changed |= any(kind == REQUEUED for _, kind in added.counts)
            self._last_ms = page.events[-1].at_ms
        if self._since_ms is None:
            self._since_ms = min(now_ms, page.events[0].at_ms) if page.events else now_ms
        self._events += len(page.events)
        self._polls += 1

    async def _skip(self) -> None:
        """Go to the end of the log: there is more than can be read without hurting the store or this process."""
        page = await self._store.events("end")
        self._position = page.position
        self._note_break(LogBreak(kind="skipped", at_ms=self.now_ms))
        if self.listener is not None:
            self.listener.skipped(page)
        log.warning("recent_skipped: events come faster than they can be followed; some were left out")

    def _note_break(self, found: LogBreak) -> None:
        self._breaks = [*self._breaks, found][-MOST_BREAKS:]

    async def catch_up(self, patience: float) -> None:
        """Read the log to its end, and all else that is looked at, for at most so many seconds: for one look."""
        deadline = time.monotonic() + patience
        while await self.poll() and time.monotonic() < deadline:
            pass
        await self.look()
        while await self._chores.some() and time.monotonic() < deadline:
            pass

    async def look(self) -> None:
        """Look at queues and workers now, and not only when it is time again."""
        await self._chores.look()

    # --- reading

    @property
    def now_ms(self) -> int:
        """The time by the store's clock, as far as it is known here."""
        return self._chores.now_ms

    @property
    def position(self) -> str | None:
        """How far the log was read; `None` before the first page."""
        return self._position

    @property
    def trouble(self) -> str | None:
        """Why the store could not be read the last time, or is not answering now; `None` when it could."""
        if self._trouble is None and self._asked_at is not None and time.monotonic() - self._asked_at > SILENT:
            return f"the store has not answered for over {SILENT:g} seconds"
        return self._trouble

    @property
    def has_looked(self) -> bool:
        """Whether queues and workers were looked at yet."""
        return self._polls > 0 and self._chores.has_looked

    @property
    def queues(self) -> list[QueueInfo]:
        """The queues, as last looked at: at most some seconds ago."""
        return self._chores.queues

    @property
    def workers(self) -> list[SessionInfo]:
        """The workers, as last looked at: at most some seconds ago."""
        return self._chores.workers

    def state(self) -> FollowState:
        """Return how the following goes."""
        self._pace.looked_at()
        return FollowState(
            now_ms=self.now_ms,
            since_ms=self._since_ms,
            lag_ms=max(0, self.now_ms - self._last_ms) if self._pace.behind else 0,
            behind=self._pace.behind,
            events=self._events,
            polls=self._polls,
            trouble=self.trouble,
            dead_letters_counted=self._chores.dead_letters_counted,
            dead_letters_whole=self._chores.dead_letters_whole,
            breaks=list(self._breaks),
        )

    def traffic(self, queue: str | None = None, seconds: int = 60) -> Traffic:
        """Return what happened in the last seconds, in a queue or in all; over 5 minutes, in whole minutes."""
        self._pace.looked_at()
        record = self._records.all if queue is None else self._records.queues.get(queue)
        first, last, covered = self._window(seconds)
        return record.traffic(first, last, covered) if record else Traffic(seconds=covered)

    def tasks(self, queue: str | None = None, seconds: int = 300) -> list[TaskTraffic]:
        """Return what happened lately by task, in whole minutes, the busiest first."""
        first, last, covered = self._window(seconds)
        found = [
            TaskTraffic(queue=name, task=task, traffic=record.traffic(first, last, covered))
            for (name, task), record in self._records.tasks.items()
            if queue in (None, name)
        ]
        return sorted(found, key=lambda each: (-each.traffic.started, each.queue, each.task or ""))

    def chart(self, queue: str | None = None, step: Step = "second") -> Chart:
        """Return columns of the last 5 minutes by second, or of the last 3 hours by minute."""
        record = self._records.all if queue is None else self._records.queues.get(queue)
        return (record or TrafficRecords().all).chart(step, self.now_ms // 1000, self._since_ms or self.now_ms)

    def task_chart(self, queue: str, task: str | None) -> Chart:
        """Return columns of the last 3 hours by minute, of one task."""
        record = self._records.tasks.get((queue, task)) or TrafficRecords().task((queue, task))
        return record.chart("minute", self.now_ms // 1000, self._since_ms or self.now_ms)

    def depth(self, queue: str) -> DepthChart:
        """Return the jobs of a queue by state, for each minute of the last 3 hours."""
        return self._depths.chart(queue, self.now_ms)

    def waiting(self, queue: str, minutes_ago: int) -> int | None:
        """Return how many jobs of a queue waited so long ago; `None` when nobody looked then."""
        return self._depths.waiting(queue, self.now_ms, minutes_ago)

    def failures(self) -> list[FailureGroup]:
        """Return errors by their signature, the most recent first."""
        return self._failures.groups(self.now_ms)

    def view(self, seconds: int = 60) -> RecentView:
        """Return everything at a glance: the last seconds of each queue, 5 minutes of each task, failures."""
        return RecentView(
            state=self.state(),
            all=self.traffic(None, seconds),
            queues={name: self.traffic(name, seconds) for name in sorted(self._records.queues)},
            tasks=self.tasks(),
            failures=self.failures(),
        )

    def attention(
        self,
        queues: Sequence[QueueInfo] | None = None,
        workers: Sequence[SessionInfo] | None = None,
        *,
        thresholds: Thresholds | None = None,
    ) -> list[Concern]:
        """Return what needs attention, the worst first; by the queues and workers given, or as last looked at."""
        queues = self.queues if queues is None else queues
        names = [info.name for info in queues]
        seen = Seen(
            now_ms=self.now_ms,
            queues=queues,
            workers=self.workers if workers is None else workers,
            traffic={name: self.traffic(name, 300) for name in names},
            tasks=self.tasks(),
            waiting_before={name: self.waiting(name, 5) for name in names},
            lake_lag_ms=self._chores.lake_lag_ms,
            state=self.state(),
        )
        return attention(seen, thresholds)

    def _window(self, seconds: int) -> tuple[int, int, float]:
        """Return the first and last second of the last so many, and how many of them were followed."""
        now_ms = self.now_ms
        since_ms = now_ms if self._since_ms is None else self._since_ms
        covered = min(float(seconds), max(1.0, (now_ms - since_ms) / 1000))
        return now_ms // 1000 - seconds + 1, now_ms // 1000, covered
