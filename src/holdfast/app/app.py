"""The app: one store, its tasks and queues, and the ways in."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload
from weakref import WeakSet

from ..client import Client, OnGap
from ..client.handle import CoroutineOf
from ..client.outgoing import ProducerMiddleware
from ..core.action import acting_as
from ..core.bound import ASKED_AT_ONCE, CANCELLED_AT_ONCE, MOST_COUNTED
from ..core.chain import ChainRef, OnBlockerFailed
from ..core.duration import Duration
from ..core.event import Event
from ..core.job import JobRecord
from ..core.schedule import CatchUp, Overlap
from ..core.tick import Spec
from ..core.transition import Reply
from ..errors import ConfigError
from ..handler.job import Job
from ..handler.middleware import Middleware
from ..log import check_logger, name_calls, shield
from ..schedule import Schedules, plan_of
from ..store import Store, open_store, shown
from ..store.contract import (
    CancelResult,
    ChainPage,
    ChainRecord,
    DeleteResult,
    Filter,
    JobCount,
    JobPage,
    QueueInfo,
    Running,
    SessionInfo,
    StoreMeasure,
)
from ..telemetry.metrics.process import are_wanted, of_this_process
from .bulk import Call, EnqueueCounts, enqueue_all
from .decorator import Decorator, ResourceDecorator
from .filter import JobFilter, known_state, selected, to_requeue
from .flow import DAY, Flow
from .hooks import Hook, Hooks
from .options import AppOptions, QueueOptions, WorkerOptions, is_development, known_options
from .plain import PlainHandler
from .queue import Queue
from .registry import Registry
from .resource import Resource, opened
from .settings import layer
from .sync import Sync

if TYPE_CHECKING:
    from ..worker import Maintainer, Worker

shield()
R = TypeVar("R")
T = TypeVar("T")
DEFAULT_URL = "sqlite:///holdfast.db"
_apps: WeakSet[Holdfast] = WeakSet()
_of_parents: list[object] = []
"""What forks inherited: kept, as even its collection would close what the parent uses."""


class Holdfast:
    """A job queue on the store that a URL names: `sqlite:///jobs.db`, `memory://`, ...

    An existing client or pool of redis-py, a pool of psycopg_pool or an engine of SQLAlchemy may stand in its place.
    """

    def __init__(
        self,
        url: object = DEFAULT_URL,
        *,
        version: int = 0,
        store: Store | None = None,
        logger: str | logging.Logger | None = None,
        metrics: bool | None = None,
        development: bool | None = None,
        **options: Unpack[AppOptions],
    ) -> None:
        self.logger = check_logger(logger)
        self.development = is_development(development)
        """Whether what its workers declare takes the place of other values under the same version."""
        self.store: Store = store if store is not None else open_store(url)
        self.hooks = Hooks()
        self.client = Client(self.store, self.hooks)
        if self.logger is not None:
            name_calls(self.client, self.logger)
            name_calls(self.client.look, self.logger)
        app_layer = layer("app", **known_options("Holdfast()", options, AppOptions))
        self.registry = Registry(self.client, app_layer, version)
        self.registry.app = self
        self._task, self._resource = Decorator(self.registry), ResourceDecorator(self.registry)
        self.schedules = Schedules(self.registry)
        self.sync = Sync(self)
        self.loop: asyncio.AbstractEventLoop | None = None
        self.metrics = metrics
        """Whether this process counts what it enqueues and runs; `None`: when OpenTelemetry has a meter provider."""
        self._counts = False
        self._opened = 0
        self._made_of = url if store is None else store
        self.client.opened_by(self.sync.home.open)
        _apps.add(self)

    def __repr__(self) -> str:
        return f"<Holdfast {shown(self.store.url)}>"

    # --- lifetime

    async def open(self) -> Holdfast:
        """Open the app in this event loop. May be nested. Where it had opened by itself, it is closed there."""
        loop = asyncio.get_running_loop()
        while self._opened and self.loop is not loop and self.sync.home.has_it_open and not self.sync.is_held:
            await asyncio.to_thread(self.sync.close)
        if self._opened and self.loop is not loop:
            raise ConfigError("this app is open in another event loop; open one app in each, or use app.sync")
        self.loop = loop
        if not self._counts and not self._opened and are_wanted(self.metrics):
            self.count_calls()
        self._opened += 1
        try:
            await self.client.open()
        except BaseException:
            self._closed_once()
            raise
        return self

    async def close(self) -> None:
        """Flush the app, and close it once every `open` has its `close`; one that had opened by itself, at once."""
        try:
            await self.flush()
        finally:
            await self._close()

    async def _close(self) -> None:
        if self.sync.home.is_open and self.loop is not asyncio.get_running_loop():
            await asyncio.to_thread(self.sync.close)
        elif self._opened > 0:
            self._closed_once()
            await self.client.close()

    def count_calls(self) -> None:
        """Count from now on what this process enqueues, how long its calls to the store take, and which fail."""
        if not self._counts:
            self._counts = True
            self.client.use(of_this_process().counted(self.store))

    def _forget_parent(self) -> None:
        """Be closed, after a fork: what is open is the parent's, and is neither used nor closed here."""
        if self.loop is None:
            return
        _of_parents.append((self.store, self.client.store, self.loop, self.sync))
        self.loop, self._opened, self._counts, self.sync = None, 0, False, type(self.sync)(self)
        twin = self.store.twin()
        made = self._made_of if isinstance(self._made_of, str) else self.store.url
        self.store = open_store(made) if twin is self.store else twin
        self.client.forget(self.store)
        self.client.opened_by(self.sync.home.open)

    def _closed_once(self) -> None:
        self._opened -= 1
        if self._opened == 0:
            self.loop = None

    async def __aenter__(self) -> Holdfast:
        return await self.open()

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    # --- declaring

    @property
    def task(self) -> Decorator:
        """The decorator that makes a function a task: `@app.task`, or `@app.task(queue="mail", retry=...)`."""
        return self._task

    @overload
    def queue(
        self,
        name: str,
        *,
        handler: PlainHandler | None = None,
        payload: type[T],
        result: type[R],
        **options: Unpack[QueueOptions],
    ) -> Queue[T, R]: ...
    @overload
    def queue(
        self, name: str, *, handler: PlainHandler | None = None, payload: type[T], **options: Unpack[QueueOptions]
    ) -> Queue[T, Any]: ...
    @overload
    def queue(
        self, name: str, *, handler: PlainHandler | None = None, result: type[R], **options: Unpack[QueueOptions]
    ) -> Queue[Any, R]: ...
    @overload
    def queue(
        self, name: str, *, handler: Callable[[T], Awaitable[R]], **options: Unpack[QueueOptions]
    ) -> Queue[T, R]: ...
    @overload
    def queue(
        self, name: str, *, handler: Callable[[Job, T], Awaitable[R]], **options: Unpack[QueueOptions]
    ) -> Queue[T, R]: ...
    @overload
    def queue(self, name: str, *, handler: Callable[[T], R], **options: Unpack[QueueOptions]) -> Queue[T, R]: ...
    @overload
    def queue(self, name: str, *, handler: Callable[[Job, T], R], **options: Unpack[QueueOptions]) -> Queue[T, R]: ...
    @overload
    def queue(
        self, name: str, *, handler: PlainHandler | None = None, **options: Unpack[QueueOptions]
    ) -> Queue[Any, Any]: ...
    def queue(
        self,
        name: str,
        *,
        handler: PlainHandler | None = None,
        payload: object = None,
        result: object = None,
        **options: Unpack[QueueOptions],
    ) -> Queue[Any, Any]:
        """Return a queue, and declare what is given of it; `handler`, a function or its path, runs plain payloads."""
        self.registry.declare(name, handler, payload, result, options)
        return Queue(self.registry, name)

    def schedule(
        self,
        name: str,
        spec: Spec,
        call: Call[object],
        *,
        catch_up: CatchUp = "one",
        limit: int = 100,
        grace: Duration = 60.0,
        overlap: Overlap = "allow",
    ) -> None:
        """Workers declare the schedule when they start: `app.schedule("nightly", Cron("0 3 * * *"), report.args())`."""
        plan = plan_of(name, spec, call, catch_up=catch_up, limit=limit, grace=grace, overlap=overlap)
        self.registry.add_schedule(call.queue, name, plan)

    def middleware(self, function: Middleware) -> Middleware:
        """Wrap each attempt in a function: `async def around(job, next): return await next()`."""
        self.registry.middleware.append(function)
        return function

    def producer_middleware(self, function: ProducerMiddleware) -> ProducerMiddleware:
        """Have each job that this app sends pass a function, which may change it or raise: `def stamp(job): ...`.

        One that yields once has the job sent meanwhile.
        """
        self.client.producers.add(function)
        return function

    @property
    def resource(self) -> ResourceDecorator:
        """The decorator that makes a function a resource: `@app.resource`, or `@app.resource(scope="attempt")`."""
        return self._resource

    def resources(self) -> AbstractAsyncContextManager[None]:
        """Return a block in which all resources are open, but for those of attempts; workers have their own."""
        return opened(self.registry.resources)

    def override(self, resource: Resource[T], value: T) -> AbstractContextManager[None]:
        """Return a block in which a resource is this value, for tests: `with app.override(pool, fake):`.

        It is not opened, nor what it depends on. Processes of a worker's pool do not know of it.
        """
        if not isinstance(resource, Resource):
            raise ConfigError(f"override({resource!r}, ...): give what @app.resource made")
        return resource.overridden(value)

    def on(self, name: str) -> Callable[[Hook], Hook]:
        """Return a decorator: the function hears of every such transition or worker event; `"*"` is all."""

        def add(hook: Hook) -> Hook:
            self.hooks.add(name, hook)
            return hook

        return add

    # --- producing

    def enqueue_many(
        self,
        calls: Iterable[Call[object]] | AsyncIterable[Call[object]],
        *,
        chunk: int = ASKED_AT_ONCE,
        connection: object = None,
    ) -> CoroutineOf[EnqueueCounts]:
        """Enqueue calls, of whatever tasks: `app.enqueue_many(send.args(to) for to in people)`."""
        return enqueue_all(self.client, calls, chunk, connection)

    async def flush(self) -> None:
        """Return once what this loop has sent by `enqueue_nowait` is in the store.

        Raise an `ExceptionGroup` of what went wrong since the last time, for those that were awaited, too.
        """
        await self.client.pending.flush()

    def flow(self, flow_id: str, *, on_blocker_failed: OnBlockerFailed = "fail", result_ttl: Duration = DAY) -> Flow:
        """Return a flow, to be built and started: fan-out, fan-in and any graph of jobs."""
        return Flow(self.registry, flow_id, on_blocker_failed, result_ttl)

    # --- working

    def worker(self, queues: Sequence[str] | None = None, **options: Unpack[WorkerOptions]) -> Worker:
        """Return a worker for these queues, by default all that the app declares."""
        from ..worker import Worker  # a process that only enqueues does without workers and executors

        return Worker(self, _names(queues), **options)

    def maintainer(self, queues: Sequence[str] | None = None, *, interval: Duration = 5.0) -> Maintainer:
        """Return what does the upkeep of these queues, by default of all that the store has, and runs no job."""
        from ..worker import Maintainer

        return Maintainer(self, _names(queues), interval=interval)

    # --- acting

    def acting_as(self, name: str | None) -> AbstractContextManager[None]:
        """Return a block in which what is done is done by `name`: `with app.acting_as("ann"):`. Events have it.

        With `None` it is done by nobody in particular.
        """
        return acting_as(name)

    async def stop_worker(self, worker: str, *, drain: bool = True) -> list[str]:
        """Tell a worker, by its name or the id of its session, to end, as its own `stop` does: within a heartbeat.

        The name of `--processes` means all of them. Returns the ids of the sessions that were told; none: nobody is so
        named, or alive.
        """
        return await self.client.stop_worker(worker, drain)

    # --- looking, over all queues

    async def status(self, queue: str, job_id: str, run: int | None = None) -> JobRecord:
        """Return a job as it stands."""
        return await self.client.look.status(queue, job_id, run)

    async def cancel(self, queue: str, job_id: str, running: Running = "refuse") -> CancelResult:
        """Cancel a job, or return why not."""
        return await self.client.cancel(queue, job_id, running)

    async def requeue(
        self,
        *job_ids: str,
        queue: str | None = None,
        limit: int = CANCELLED_AT_ONCE,
        dry_run: bool = False,
        **which: Unpack[JobFilter],
    ) -> list[tuple[str, str, int]]:
        """Requeue finished jobs: with these ids, or all failed ones that match. Return (queue, id, run) of each."""
        chosen = selected("requeue()", which, queue=queue, ids=job_ids, states=to_requeue(job_ids))
        return await self.client.requeue(chosen, limit, dry_run)

    async def jobs(
        self,
        *,
        queue: str | None = None,
        chain: ChainRef | None = None,
        ids: Sequence[str] | None = None,
        worker: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
        **which: Unpack[JobFilter],
    ) -> JobPage:
        """Return jobs that match, newest first; with `chain`, those of one chain; with `worker`, those that it holds.

        What waits, is scheduled or is completed is listed in the order of its state (see the reference of `JobPage`).
        What a page costs is bounded, however many jobs there are: one may be short, or empty, with a cursor that goes
        on. With `ids`, the status of each id that is there, in the order given and without a limit.
        """
        chosen = selected("jobs()", which, queue=queue, chain=chain)
        return await self.client.look.jobs(chosen, limit, cursor, ids=ids, worker=worker)

    async def count(
        self, *, queue: str | None = None, most: int = MOST_COUNTED, **which: Unpack[JobFilter]
    ) -> JobCount:
        """Return how many jobs match, counted up to `most`; by queue and state alone, whatever their number."""
        return await self.client.look.count(selected("count()", which, queue=queue), most)

    # --- chains

    async def chain(self, queue: str, job_id: str, run: int | None = None) -> ChainRecord:
        """Return the chain that a job began, or belongs to, as it stands."""
        return await self.client.look.chain(queue, job_id, run)

    async def chains(
        self,
        *,
        queue: str | None = None,
        state: str | None = None,
        task: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> ChainPage:
        """Return chains of more than one job, newest first; queue and task are those of their first jobs."""
        which = Filter(queue=queue, states=(known_state(state),) if state else (), task=task)
        return await self.client.look.chains(which, limit, cursor)

    async def complete_chain(self, queue: str, job_id: str, result: object = None, *, run: int | None = None) -> Reply:
        """Complete the chain that a job began with this result, also while a worker holds its current job."""
        record = await self.client.look.chain(queue, job_id, run)
        data = self.registry.encode_result(queue, record.task, result)
        return await self.client.complete_chain(queue, job_id, run, data)

    async def delete_chain(
        self, queue: str, job_id: str, *, run: int | None = None, cascade: bool = False
    ) -> DeleteResult:
        """Delete every job of a chain. Refused while others wait for it, unless they go too (`cascade`)."""
        return await self.client.delete_chain(queue, job_id, run, cascade)

    async def delete_chains(
        self, chains: Iterable[ChainRef | tuple[str, str]], *, cascade: bool = False
    ) -> list[DeleteResult]:
        """Delete many chains, by `ChainRef` or (queue, id); return an answer for each, in the order given.

        They may wait for each other; only those outside who wait stand in the way of a chain.
        """
        return await self.client.delete_chains(chains, cascade)

    async def queues(self) -> list[QueueInfo]:
        """Return every queue that the store knows."""
        return await self.client.look.queues()

    async def measure(self) -> StoreMeasure:
        """Return what grows, waits and is late in the store. What it costs does not grow with its jobs."""
        return await self.client.look.measure()

    async def workers(self) -> list[SessionInfo]:
        """Return every worker that the store knows."""
        return await self.client.look.workers()

    def events(
        self,
        *,
        after: str | None = None,
        queue: str | None = None,
        follow: bool = False,
        on_gap: OnGap | None = None,
    ) -> AsyncIterator[Event]:
        """Yield events in commit order; `after="end"` with `follow` is from now on.

        `on_gap` hears how many events were trimmed unread, or `None` when the log is another one; else it is logged.
        """
        return self.client.look.events(after=after, queue=queue, follow=follow, on_gap=on_gap)


def _forget_parents() -> None:
    for app in list(_apps):
        app._forget_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parents)


def _names(queues: Sequence[str] | None) -> tuple[str, ...]:
    if isinstance(queues, str):
        raise ConfigError(f"queues={queues!r}: give a list of names, such as [{queues!r}]")
    if queues is not None and (isinstance(queues, bytes) or not isinstance(queues, Sequence)):
        raise ConfigError(f"queues={queues!r}: give a list of names")
    return tuple(queues or ())
