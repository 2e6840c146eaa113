"""The app: one store, its tasks and queues, and the ways in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar, overload

from .bulk import Counts, enqueue_all
from .client import Client, OnGap
from .codec import Codec, Signature
from .continuation import Continued
from .core.chain import ChainRef, OnBlockerFailed
from .core.duration import Duration
from .core.event import Event
from .core.job import JobRecord
from .core.policy import Retry
from .core.sandbox import Sandbox
from .core.schedule import CatchUp, Overlap
from .core.state import State
from .core.tick import Spec
from .core.transition import Reply
from .errors import ConfigError
from .flow import DAY, Flow
from .hook import Hook, Hooks
from .job import Job
from .log import shield
from .option import check_text
from .queue import FINISHED, Queue, known_state
from .registry import Middleware, Registry, check_path, check_queue_name
from .resource import Opening, Resource, opened
from .schedule import Schedules, plan_of
from .settings import layer, queue_fields
from .store import Store, open_store, shown
from .store.contract import Cancelled, ChainPage, ChainRecord, Deleted, Filter, JobPage, QueueInfo, Running, SessionInfo
from .sync import Sync
from .task import Call, Executor, Task

if TYPE_CHECKING:
    from .worker import Worker

shield()
P = ParamSpec("P")
R = TypeVar("R")
DEFAULT_URL = "sqlite:///holdfast.db"


class _Nobody:
    """No handler asks for this, so that one whose first parameter accepts it takes anything, and is not given a Job."""


class _Decorator:
    """What `@app.task(...)` returns: it makes a function a task, typed by the function."""

    def __init__(self, make: Callable[[Callable[..., Any]], Task[Any, Any]]) -> None:
        self._make = make

    @overload
    def __call__(
        self, fn: Callable[Concatenate[_Nobody, P], Awaitable[Continued[R]]]
    ) -> Task[Concatenate[Any, P], R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Job, P], Awaitable[Continued[R]]]) -> Task[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Awaitable[Continued[R]]]) -> Task[P, R]: ...
    @overload
    def __call__(
        self, fn: Callable[Concatenate[_Nobody, P], Awaitable[R | Continued[R]]]
    ) -> Task[Concatenate[Any, P], R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Job, P], Awaitable[R | Continued[R]]]) -> Task[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Awaitable[R | Continued[R]]]) -> Task[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[_Nobody, P], Continued[R]]) -> Task[Concatenate[Any, P], R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Job, P], Continued[R]]) -> Task[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Continued[R]]) -> Task[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[_Nobody, P], R | Continued[R]]) -> Task[Concatenate[Any, P], R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Job, P], R | Continued[R]]) -> Task[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R | Continued[R]]) -> Task[P, R]: ...
    def __call__(self, fn: Callable[..., Any]) -> Task[Any, Any]:
        return self._make(fn)


class Holdfast:
    """A job queue on the store that a URL names: `sqlite:///jobs.db`, `memory://`, ...

    An existing client or pool of redis-py, a pool of psycopg_pool or an engine of SQLAlchemy may stand in its place.
    """

    def __init__(
        self,
        url: str | Any = DEFAULT_URL,
        *,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        result_ttl: Duration | None = None,
        codec: str | Codec | None = None,
        result_codec: str | Codec | None = None,
        max_payload: int | None = None,
        max_result: int | None = None,
        version: int = 0,
        store: Store | None = None,
    ) -> None:
        self.store: Store = store if store is not None else open_store(url)
        self.hooks = Hooks()
        self.client = Client(self.store, self.hooks)
        app_layer = layer(
            "app", retry=retry, timeout=timeout, result_ttl=result_ttl, codec=codec, result_codec=result_codec,
            max_payload=max_payload, max_result=max_result,
        )  # fmt: skip
        self.registry = Registry(self.client, app_layer, version)
        self.registry.app = self
        self.schedules = Schedules(self.registry)
        self.sync = Sync(self)
        self.loop: asyncio.AbstractEventLoop | None = None
        self._opened = 0

    def __repr__(self) -> str:
        return f"<Holdfast {shown(self.store.url)}>"

    # --- lifetime

    async def open(self) -> Holdfast:
        """The app can be used in this event loop. May be nested."""
        loop = asyncio.get_running_loop()
        if self._opened and self.loop is not loop:
            raise ConfigError("this app is open in another event loop; open one app in each, or use app.sync")
        self.loop = loop
        self._opened += 1
        try:
            await self.client.open()
        except BaseException:
            self._closed_once()
            raise
        return self

    async def close(self) -> None:
        """Nothing of the app is open, once every `open` has its `close`."""
        if self._opened > 0:
            self._closed_once()
            await self.client.close()

    def _closed_once(self) -> None:
        self._opened -= 1
        if self._opened == 0:
            self.loop = None

    async def __aenter__(self) -> Holdfast:
        return await self.open()

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    # --- declaring

    def task(
        self,
        *,
        queue: str = "default",
        name: str | None = None,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        priority: int | None = None,
        result_ttl: Duration | None = None,
        codec: str | Codec | None = None,
        result_codec: str | Codec | None = None,
        max_payload: int | None = None,
        max_result: int | None = None,
        executor: Executor | None = None,
        completion: Literal["staged", "atomic"] | None = None,
        size: int | None = None,
        sandbox: Sandbox | None = None,
        on_failure: Task[Any, Any] | None = None,
    ) -> _Decorator:
        """Return a decorator that makes a function a task of this app."""
        own = layer(
            "task", retry=retry, timeout=timeout, priority=priority, result_ttl=result_ttl, codec=codec,
            result_codec=result_codec, max_payload=max_payload, max_result=max_result, executor=executor,
            completion=completion, size=size, sandbox=sandbox, on_failure=on_failure,
        )  # fmt: skip

        def make(fn: Callable[..., Any]) -> Task[Any, Any]:
            if not callable(fn):
                raise ConfigError(f"@app.task() takes a function, not {fn!r}; write @app.task(...) with parentheses")
            check_queue_name(queue)
            known = str(getattr(fn, "__name__", type(fn).__name__)) if name is None else name
            check_text(known, "name", "a task's name")
            signature = Signature.of(fn, inject=(Job,), wrapper=Continued)
            task: Task[Any, Any] = Task(self.registry, fn, known, queue, own, signature)
            self.registry.add(task)
            if on_failure is not None:
                self.registry.fail_handlers.add(on_failure.name)
            return task

        return _Decorator(make)

    def queue(
        self,
        name: str,
        *,
        handler: str | None = None,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        codec: str | Codec | None = None,
        result_codec: str | Codec | None = None,
        max_payload: int | None = None,
        max_result: int | None = None,
        executor: Executor | None = None,
        **settings: Any,
    ) -> Queue:
        """Return a queue; with settings, declare them. `handler` is the import path of what runs plain payloads."""
        own = layer(
            "queue", retry=retry, timeout=timeout, codec=codec, result_codec=result_codec, max_payload=max_payload,
            max_result=max_result, executor=executor, result_ttl=settings.get("result_ttl"),
        )  # fmt: skip
        self.registry.check_layer(f"queue {name!r}", own)
        if handler is not None:
            check_path(handler, f"queue {name!r}: handler")
        if handler is None and not own.values and not settings:
            return Queue(self.registry, check_queue_name(name))  # looked up only: this app's workers need not serve it
        declared = self.registry.queue(name)
        declared.handler = handler or declared.handler
        declared.settings = {**declared.settings, **queue_fields(settings)}
        if own.values:
            declared.layer = layer("queue", **{**(declared.layer.values if declared.layer else {}), **own.values})
        return Queue(self.registry, name)

    def schedule(
        self,
        name: str,
        spec: Spec,
        call: Call[Any],
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
        """The function wraps each attempt: `async def around(job, next): return await next()`."""
        self.registry.middleware.append(function)
        return function

    def resource(self, fn: Opening[R]) -> Resource[R]:
        """Make a function that yields once a resource: open in every process that runs handlers, while it does."""
        made = Resource(fn)
        self.registry.resources.append(made)
        return made

    def resources(self) -> AbstractAsyncContextManager[None]:
        """Return a block in which all resources are open; workers and their processes have their own."""
        return opened(self.registry.resources)

    def on(self, name: str) -> Callable[[Hook], Hook]:
        """Return a decorator: the function hears of every such transition or worker event; `"*"` is all."""

        def add(hook: Hook) -> Hook:
            self.hooks.add(name, hook)
            return hook

        return add

    # --- producing

    def enqueue_many(
        self, calls: Iterable[Call[Any]] | AsyncIterable[Call[Any]], *, chunk: int = 500, connection: Any = None
    ) -> Coroutine[Any, Any, Counts]:
        """Every call, of whatever tasks, is in the store: `app.enqueue_many(send.args(to) for to in people)`."""
        return enqueue_all(self.client, calls, chunk, connection)

    def flow(self, flow_id: str, *, on_blocker_failed: OnBlockerFailed = "fail", result_ttl: Duration = DAY) -> Flow:
        """Return a flow, to be built and started: fan-out, fan-in and any graph of jobs."""
        return Flow(self.registry, flow_id, on_blocker_failed, result_ttl)

    # --- working

    def worker(self, queues: Sequence[str] | None = None, **options: Any) -> Worker:
        """Return a worker for these queues, by default all that the app declares."""
        if isinstance(queues, str):
            raise ConfigError(f"queues={queues!r}: give a list of names, such as [{queues!r}]")
        if queues is not None and (isinstance(queues, bytes) or not isinstance(queues, Sequence)):
            raise ConfigError(f"queues={queues!r}: give a list of names")
        from .worker import Worker  # a process that only enqueues does without workers and executors

        return Worker(self, tuple(queues or ()), **options)

    # --- looking, over all queues

    async def status(self, queue: str, job_id: str, run: int | None = None) -> JobRecord:
        """Return a job as it stands."""
        return await self.client.status(queue, job_id, run)

    async def cancel(self, queue: str, job_id: str, running: Running = "refuse") -> Cancelled:
        """The job is cancelled, or the answer says why not."""
        return await self.client.cancel(queue, job_id, running)

    async def requeue(
        self,
        *job_ids: str,
        queue: str | None = None,
        state: Literal["failed", "completed", "cancelled"] | None = None,
        task: str | None = None,
        limit: int = 1000,
        dry_run: bool = False,
    ) -> list[tuple[str, str, int]]:
        """Finished jobs run anew: those with these ids, or all failed ones that match. (queue, id, run) of each."""
        states = (known_state(state),) if state else (FINISHED if job_ids else (State.FAILED,))
        which = Filter(queue=queue, ids=job_ids, states=states, task=task)
        return await self.client.requeue(which, limit, dry_run)

    async def jobs(
        self,
        *,
        queue: str | None = None,
        state: str | None = None,
        task: str | None = None,
        key: str | None = None,
        chain: ChainRef | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> JobPage:
        """Return jobs that match, newest first; with `chain`, those of one chain."""
        states = (known_state(state),) if state else ()
        which = Filter(queue=queue, states=states, task=task, key=key, chain=chain)
        return await self.client.jobs(which, limit, cursor)

    # --- chains

    async def chain(self, queue: str, job_id: str, run: int | None = None) -> ChainRecord:
        """Return the chain that a job began, or belongs to, as it stands."""
        return await self.client.chain(queue, job_id, run)

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
        return await self.client.chains(which, limit, cursor)

    async def complete_chain(self, queue: str, job_id: str, result: Any = None, *, run: int | None = None) -> Reply:
        """The chain that a job began is over with this result, whoever works on its current job."""
        record = await self.client.chain(queue, job_id, run)
        data = self.registry.encode_result(queue, record.task, result)
        return await self.client.complete_chain(queue, job_id, run, data)

    async def delete_chain(self, queue: str, job_id: str, *, run: int | None = None, cascade: bool = False) -> Deleted:
        """Every job of the chain is gone. Refused while others wait for it, unless they go too (`cascade`)."""
        return await self.client.delete_chain(queue, job_id, run, cascade)

    async def queues(self) -> list[QueueInfo]:
        """Return every queue that the store knows."""
        return await self.client.queues()

    async def workers(self) -> list[SessionInfo]:
        """Return every worker that the store knows."""
        return await self.client.workers()

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
        return self.client.events(after=after, queue=queue, follow=follow, on_gap=on_gap)
