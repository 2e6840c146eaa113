"""Jobs, chains, queues, workers and events as they stand."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import get_args

import msgspec

from ..core.bound import ASKED_AT_ONCE, MOST_COUNT, MOST_COUNTED
from ..core.declaration import View
from ..core.event import Event
from ..core.job import JobRecord
from ..core.state import State
from ..core.word import check_words
from ..errors import ConfigError, JobMissing
from ..store.contract import (
    ChainPage,
    ChainRecord,
    Dependants,
    Filter,
    JobCount,
    JobPage,
    KeyInfo,
    KeyOrder,
    QueueInfo,
    SessionInfo,
    Store,
    StoreMeasure,
)

OnGap = Callable[[int | None], None]
log = logging.getLogger("holdfast")


class Look:
    """Reads what a store has, and changes nothing."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def find(self, queue: str, id: str, run: int | None = None) -> JobRecord | None:
        """Return a job as it stands, or `None`."""
        check_words(queue=queue, job_id=id)
        return await self.store.get(queue, id, checked_run(run))

    async def status(self, queue: str, id: str, run: int | None = None) -> JobRecord:
        """Return a job as it stands; raise when there is none."""
        check_words(queue=queue, job_id=id)
        record = await self.store.get(queue, id, checked_run(run))
        if record is None:
            raise missing(queue, id, run)
        return record

    async def chain(self, queue: str, id: str, run: int | None = None) -> ChainRecord:
        """Return the chain of a job; raise when there is none."""
        check_words(queue=queue, job_id=id)
        record = await self.store.chain(queue, id, checked_run(run))
        if record is None:
            raise missing(queue, id, run)
        return record

    async def chains(self, which: Filter, limit: int = 50, cursor: str | None = None) -> ChainPage:
        """Return chains of more than one job, newest first."""
        check_filter(which, cursor)
        return await self.store.chains(which, limit=checked_limit(limit), cursor=cursor)

    async def jobs(
        self,
        which: Filter,
        limit: int = 50,
        cursor: str | None = None,
        *,
        ids: Sequence[str] | None = None,
        worker: str | None = None,
    ) -> JobPage:
        """Return jobs that match, newest first, or as `look_up` does by `ids`; of `worker`, those that it holds."""
        if worker is not None:
            which = msgspec.structs.replace(which, holders=await self._holders(worker, which))
            if not which.holders:
                return JobPage(jobs=[])
        if ids is not None:
            if cursor is not None or which.chain is not None:
                raise ConfigError("ids=[...]: they are looked up in one call, with no cursor= and no chain=")
            return JobPage(jobs=[record for record in await self.look_up(ids, which.queue) if _matches(which, record)])
        check_filter(which, cursor)
        return await self.store.jobs(which, limit=checked_limit(limit), cursor=cursor)

    async def count(self, which: Filter, most: int = MOST_COUNTED) -> JobCount:
        """Return how many jobs match, counted up to `most`."""
        check_filter(which)
        return await self.store.count(which, most=checked_limit(most, "most"))

    async def runs(self, queue: str, id: str, limit: int = 50) -> list[JobRecord]:
        """Return the runs of an id that are kept, newest first."""
        check_words(queue=queue, job_id=id)
        page = await self.store.jobs(Filter(queue=queue, ids=(id,)), limit=checked_limit(limit))
        return page.jobs

    async def dependants(self, queue: str, id: str, run: int | None = None, limit: int = 50) -> Dependants:
        """Return the jobs that wait for the chain of a job."""
        check_words(queue=queue, job_id=id)
        return await self.store.dependants(queue, id, checked_run(run), limit=checked_limit(limit))

    async def layers(self, queue: str) -> View:
        """Return what workers declared of a queue and its tasks, and what operators set above it."""
        check_words(queue=queue)
        return await self.store.layers(queue)

    async def keys(self, queue: str, order: KeyOrder = "busiest", limit: int = 50) -> list[KeyInfo]:
        """Return keys of a queue with their jobs and limits."""
        check_words(queue=queue)
        if order not in get_args(KeyOrder):
            raise ConfigError(f"order={order!r} is none; known are {', '.join(get_args(KeyOrder))}")
        return await self.store.keys(queue, order=order, limit=checked_limit(limit))

    async def measure(self) -> StoreMeasure:
        """Return what grows, waits and is late in the store."""
        return await self.store.measure()

    async def look_up(self, ids: Sequence[str], queue: str | None = None) -> list[JobRecord]:
        """Return the run that answers for each of these ids that is there, in their order, each id once."""
        if isinstance(ids, str | bytes) or not isinstance(ids, Sequence):
            raise ConfigError(f"ids={ids!r}: give a list of ids")
        check_filter(Filter(queue=queue, ids=tuple(ids)))
        once = list(dict.fromkeys(ids))
        parts = [once[first : first + ASKED_AT_ONCE] for first in range(0, len(once), ASKED_AT_ONCE)]
        return [record for part in parts for record in await self.store.look_up(part, queue)]

    async def _holders(self, worker: str, which: Filter) -> tuple[str, ...]:
        """Return the sessions of the workers with this name, or the one with this id."""
        check_words(worker=worker)
        if which.states not in ((), (State.ACTIVE,)):
            raise ConfigError(f"worker={worker!r}: what a worker holds is active; leave state= out")
        found = [info.session for info in await self.store.sessions()]
        return tuple(each.id for each in found if worker in (each.name, each.id))

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
        check_words(after=after, queue=queue, job_id=id)
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


def check_filter(which: Filter, cursor: str | None = None) -> None:
    """Raise when a filter asks for what no job can have."""
    chain = which.chain
    check_words(queue=which.queue, task=which.task, key=which.key, tag=which.tag, cursor=cursor)
    check_words(id_prefix=which.id_prefix, signature=which.signature)
    check_words(**({"chain.queue": chain.queue, "chain.id": chain.id} if chain is not None else {}))
    for id in which.ids:
        check_words(job_id=id)


def _matches(which: Filter, record: JobRecord) -> bool:
    return (
        (not which.states or record.state in which.states)
        and (which.task is None or record.task == which.task)
        and (which.key is None or record.key == which.key)
        and (which.tag is None or which.tag in record.tags)
        and record.id.startswith(which.id_prefix or "")
        and (which.signature is None or _has_error(record, which.signature))
        and (which.enqueued_after_ms is None or record.enqueued_at_ms >= which.enqueued_after_ms)
        and (which.enqueued_before_ms is None or record.enqueued_at_ms < which.enqueued_before_ms)
        and which.has_times(record.started_at_ms, record.finished_at_ms)
        and (not which.holders or (record.state is State.ACTIVE and record.worker in which.holders))
    )


def _has_error(record: JobRecord, signature: str) -> bool:
    over = record.state in (State.COMPLETED, State.CANCELLED)
    return record.error is not None and not over and record.error.signature == signature


def checked_limit(value: int, name: str = "limit") -> int:
    """Return a number of jobs, or raise when it is none, or one that a store may not be able to count to."""
    if type(value) is not int or not 1 <= value <= MOST_COUNT:
        raise ConfigError(f"{name}={value!r}: a whole number from 1 to {MOST_COUNT}")
    return value


def _warn_of_gap(missed: int | None) -> None:
    if missed is None:
        log.warning("log_reset: the event log is another one than the position was made for: reading it from its start")
    else:
        log.warning("log_gap: %d events were trimmed before they could be read", missed)


def missing(queue: str, id: str, run: int | None = None) -> JobMissing:
    """Return the error for a job that is not there."""
    which = f"{queue}/{id}" + (f" run {run}" if run is not None else "")
    return JobMissing(
        f"there is no job {which}, or it has expired; `holdfast jobs` lists those there are",
        queue=queue, job_id=id, run=run,
    )  # fmt: skip


def checked_run(run: int | None) -> int | None:
    """Return the number of a run, or raise when it is no number at all."""
    if run is not None and type(run) is not int:
        raise ConfigError(f"run={run!r}: a whole number; take it from a handle or a record")
    return run
