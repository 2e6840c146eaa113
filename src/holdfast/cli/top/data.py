"""What the screen shows, read from the store and from the follower of its log."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from ...app.app import Holdfast
from ...core.event import Event
from ...core.job import JobRecord
from ...core.state import State
from ...core.visible import visible
from ...store.contract import Filter, JobPage, QueueInfo, SessionInfo
from ...telemetry.recent import Concern, Recent, RecentView
from .state import JobRef, ListedJobs, TopState

PAGE = 200
MOST_EVENTS = 200
TIMELINE_PATIENCE = 3.0
"""Seconds for the events of one job: a store without an index of them has to look through its log."""


@dataclass(frozen=True)
class JobDetail:
    """A job, and what happened to it; `events` is `None` while they are looked for, or when that took too long."""

    record: JobRecord | None
    events: list[Event] | None = None


@dataclass(frozen=True)
class TopData:
    """One look at everything."""

    url: str
    view: RecentView
    queues: list[QueueInfo] = field(default_factory=list)
    workers: list[SessionInfo] = field(default_factory=list)
    concerns: list[Concern] = field(default_factory=list)
    done: list[int] = field(default_factory=list)
    """Jobs that were completed in each of the last seconds."""
    done_by_queue: dict[str, list[int]] = field(default_factory=dict)
    jobs: JobPage | None = None
    detail: JobDetail | None = None
    trouble: str | None = None

    @property
    def now_ms(self) -> int:
        """The store's time."""
        return self.view.state.now_ms

    def queue(self, name: str) -> QueueInfo | None:
        """Return a queue by name."""
        return next((info for info in self.queues if info.name == name), None)


class TopReader:
    """Reads what the view on the screen needs."""

    def __init__(self, app: Holdfast, recent: Recent, url: str) -> None:
        self._app = app
        self._recent = recent
        self._url = url
        self._jobs: JobPage | None = None
        self._detail: JobDetail | None = None
        self._detail_of: tuple[Any, ...] = ()

    async def read(self, state: TopState) -> TopData:
        """Return one look; what cannot be read now stays as it was, and the trouble is told."""
        trouble = self._recent.state().trouble
        try:
            if state.view == "jobs":
                self._jobs = await self._page(state.jobs)
            elif state.view == "job" and state.job is not None:
                await self._read_job(state.job)
        except Exception as error:
            trouble = visible(f"{type(error).__name__}: {error}")
        return self.now(trouble)

    def now(self, trouble: str | None = None) -> TopData:
        """Return what is known without asking the store."""
        recent = self._recent
        return TopData(
            url=self._url,
            view=recent.view(),
            queues=recent.queues,
            workers=recent.workers,
            concerns=recent.attention(),
            done=recent.chart().completed,
            done_by_queue={info.name: recent.chart(info.name).completed for info in recent.queues},
            jobs=self._jobs,
            detail=self._detail,
            trouble=trouble,
        )

    def forget_job(self) -> None:
        """Another job is opened."""
        self._detail, self._detail_of = None, ()

    def forget_jobs(self) -> None:
        """Another list of jobs is opened."""
        self._jobs = None

    async def _page(self, which: ListedJobs) -> JobPage:
        states = (State(which.state),) if which.state else ()
        if which.worker is not None:
            return await self._app.store.jobs(Filter(holders=(which.worker,), states=(State.ACTIVE,)), limit=PAGE)
        cursor = which.cursors[-1] if which.cursors else None
        return await self._app.store.jobs(Filter(queue=which.queue, states=states), limit=PAGE, cursor=cursor)

    async def _read_job(self, ref: JobRef) -> None:
        if ref.queue is None:
            found = await self._app.store.look_up([ref.id])
            record = found[0] if found else None
        else:
            record = await self._app.store.get(ref.queue, ref.id, ref.run)
        if record is None:
            self._detail, self._detail_of = JobDetail(None), ()
            return
        now = (record.queue, record.id, record.run, record.state, record.counters, record.started_at_ms)
        if now != self._detail_of:
            self._detail = JobDetail(record, await self._events(record))
            self._detail_of = now
        elif self._detail is not None:
            self._detail = JobDetail(record, self._detail.events)

    async def _events(self, record: JobRecord) -> list[Event] | None:
        try:
            return await asyncio.wait_for(self._all_events(record), TIMELINE_PATIENCE)
        except TimeoutError:
            return None

    async def _all_events(self, record: JobRecord) -> list[Event]:
        found: list[Event] = []
        position: str | None = None
        while len(found) < MOST_EVENTS:
            page = await self._app.store.events(position, queue=record.queue, id=record.id, limit=MOST_EVENTS)
            found += [event for event in page.events if event.run == record.run]
            if not page.events:
                break
            position = page.position
        return found[-MOST_EVENTS:]
