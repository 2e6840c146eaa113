"""A function that can be enqueued, called and run somewhere else."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, Callable, Coroutine, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeVar

from .bulk import Counts, enqueue_all
from .client import DEFAULT_WAIT, Handle, handed_over, new_id, refuse_update
from .codec import Codec, Signature
from .continuation import Continued, refuse_options
from .core.chain import OnBlockerFailed
from .core.duration import Duration, Instant
from .core.job import JobRecord
from .core.policy import Policy, Retry
from .core.size import fit_payload, fit_result
from .core.transition import Reply
from .option import Dedup, Options, Prepared, Waitable, refuse_own_blocker, refuse_to_wait
from .settings import Layer, Won, adjust, resolve, resolve_all
from .store.contract import Cancelled, NewJob, OnConflict, OnFailed, Running
from .sync import Openable

if TYPE_CHECKING:
    from .registry import Registry

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Executor = Literal["inline", "thread", "process", "sandbox"]
WHOLE = 100
"""The units of a process."""


class Call(Generic[R_co]):
    """A task with its arguments and options: one job that is not enqueued yet."""

    __slots__ = ("connection", "job", "prepared", "queue")

    def __init__(self, queue: str, job: NewJob, prepared: Prepared, connection: Any = None) -> None:
        self.queue = queue
        self.job = job
        self.prepared = prepared
        self.connection = connection


class Task(Generic[P, R]):
    """Made by `@app.task`. Calling it runs the function here and now; `enqueue` and `call` run it in a worker."""

    def __init__(
        self, registry: Registry, fn: Callable[P, Any], name: str, queue: str, layer: Layer, signature: Signature
    ) -> None:
        self._registry = registry
        self._options = Options()
        self._prepared = self._options.prepared()
        self.fn = fn
        self.name = name
        self.queue = queue
        self.layer = layer
        self.signature = signature
        self.__name__ = name
        self.__doc__ = fn.__doc__
        self.__wrapped__ = fn

    def __repr__(self) -> str:
        return f"<Task {self.name} in queue {self.queue}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Run the function itself, here, with no queue."""
        return self.fn(*args, **kwargs)

    # --- settings

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Where this task's settings come from, nearest first."""
        return (self.layer, *self._registry.layers(self.queue))

    def setting(self, name: str) -> Any:
        """Return the value of a setting for this task."""
        return resolve(name, self.layers).value

    def settings(self) -> list[Won]:
        """Return every setting, with the place that decided it; what `options` set comes first."""
        own = {
            name: getattr(self._options, name)
            for name in ("retry", "timeout", "priority", "result_ttl")
            if getattr(self._options, name) is not None
        }
        won = resolve_all((Layer("job", own), *self.layers))
        policy = self.policy()  # which knows that fail handlers are retried for longer
        return [
            Won(each.name, policy.retry, each.source) if each.name == "retry" and each.source == "library" else each
            for each in won
        ]

    def policy(self) -> Policy:
        """Return what a worker declares of this task."""
        return self._registry.policy(self)

    @cached_property
    def codec(self) -> Codec:
        """What encodes its arguments."""
        return self._registry.codec(self.setting("codec"))

    @cached_property
    def result_codec(self) -> Codec:
        """What encodes its result."""
        return self._registry.codec(self.setting("result_codec"))

    @cached_property
    def max_payload(self) -> int:
        """The most bytes that its arguments may have."""
        limit: int = self.setting("max_payload")
        return limit

    @cached_property
    def max_result(self) -> int:
        """The most bytes that its result may have."""
        limit: int = self.setting("max_result")
        return limit

    @cached_property
    def runs_in(self) -> Executor:
        """The executor of its handler: `inline` for `async def`, `thread` for `def`, unless it says otherwise."""
        chosen: Executor | None = self.setting("executor")
        return chosen or ("inline" if inspect.iscoroutinefunction(self.fn) else "thread")

    @cached_property
    def in_process(self) -> bool:
        """True when its handler runs in a process of its own."""
        return self.runs_in in ("process", "sandbox")

    @cached_property
    def size(self) -> int:
        """What a job takes: units of a process, a whole one unless it says otherwise; or one slot."""
        size: int | None = self.setting("size")
        return size or (WHOLE if self.in_process else 1)

    @property
    def registry(self) -> Registry:
        """What its app knows."""
        return self._registry

    @property
    def app(self) -> Openable | None:
        """The app that it belongs to."""
        return self._registry.app

    # --- options

    def options(
        self,
        *,
        job_id: str | None = None,
        delay: Duration | None = None,
        run_at: Instant | None = None,
        priority: int | None = None,
        key: str | None = None,
        on_conflict: OnConflict | None = None,
        on_failed: OnFailed | None = None,
        update_payload: bool | None = None,
        update_run_at: bool | Literal["if_later", "if_earlier"] | None = None,
        reset_counts: bool | None = None,
        dedup: Dedup | None = None,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        result_ttl: Duration | None = None,
        headers: dict[str, str] | None = None,
        connection: Any = None,
        blockers: Iterable[Waitable] | None = None,
        on_blocker_failed: OnBlockerFailed | None = None,
    ) -> Task[P, R]:
        """Return this task with options for the jobs that are enqueued through it."""
        given = {
            "job_id": job_id, "delay": delay, "run_at": run_at, "priority": priority, "key": key,
            "on_conflict": on_conflict, "on_failed": on_failed, "update_payload": update_payload,
            "update_run_at": update_run_at, "reset_counts": reset_counts, "dedup": dedup, "retry": retry,
            "timeout": timeout, "result_ttl": result_ttl, "headers": headers,
            "connection": connection, "on_blocker_failed": on_blocker_failed,
            "blockers": blockers,
        }  # fmt: skip
        changed = {name: value for name, value in given.items() if value is not None}
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._options = self._options.with_(**changed)
        twin._prepared = twin._options.prepared()
        return twin

    # --- producing

    def args(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """Return one call of this task, to be enqueued with others (`enqueue_many`)."""
        return Call(self.queue, self._job(args, kwargs), self._prepared, self._options.connection)

    def _job(self, args: Any, kwargs: Any, watcher: str | None = None) -> NewJob:
        options, prepared = self._options, self._prepared
        result_ttl = prepared.result_ttl_ms
        job = NewJob(
            id=options.job_id or new_id(),
            task=self.name,
            payload=self.encode(args, kwargs),
            fresh=options.job_id is None,
            run_at_ms=prepared.run_at_ms,
            delay_ms=prepared.delay_ms,
            priority=self._priority(),
            key=options.key,
            headers=options.headers,
            overrides=prepared.overrides,
            result_ttl_ms=result_ttl if result_ttl is not None else self._registry.task_ttl_ms(self),
            dedup=prepared.dedup,
            watcher=watcher,
            blockers=prepared.blockers,
            on_blocker_failed=options.on_blocker_failed,
        )
        return refuse_own_blocker(self.queue, job) if job.blockers else job

    def encode(self, args: Any, kwargs: Any) -> bytes:
        """Return arguments as a payload; raise for those that a worker would not get as they are."""
        payload = self.signature.encode(args, kwargs, self.codec)
        return payload if len(payload) <= self.max_payload else fit_payload(payload, self.max_payload, self.name)

    def encode_result(self, result: Any) -> bytes:
        """Return a result as it is stored; raise for one that would not come back as it is."""
        return fit_result(self.signature.encode_result(result, self.result_codec), self.max_result, self.name)

    def continued(self, args: Any, kwargs: Any) -> Continued[R]:
        """Return this call as the next job of a chain; what `job.continue_with` does."""
        refuse_options(self.name, self._options)
        return Continued(self.queue, self._job(args, kwargs), self.result_codec, self._registry.client.store)

    def _priority(self) -> int:
        if self._options.priority is not None:
            return self._options.priority
        value: int = self._registry.task_priority(self)
        return value

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, Handle[R]]:
        """The job is in the store, once awaited; the handle says what became of it.

        With the option `connection` it is in the caller's own transaction instead; on a synchronous connection
        already when this returns, so that the coroutine only hands over the handle.
        """
        if self._options.connection is None:
            return self._enqueue(args, kwargs)
        job, client = self._job(args, kwargs), self._registry.client
        answers = client.enqueue_in(self._options.connection, self.queue, [job], self._prepared.conflict)
        return handed_over(client, self.queue, answers, self.decode_result)

    async def _enqueue(self, args: Any, kwargs: Any, watcher: str | None = None) -> Handle[R]:
        client = self._registry.client
        job = self._job(args, kwargs, watcher)
        answers = await client.enqueue(self.queue, [job], self._prepared.conflict)
        refuse_update(self.queue, answers[0])
        return Handle(client, self.queue, answers[0], self.decode_result, watched=watcher is not None)

    async def call(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return the result of the job, run by some worker; waits up to 30 s (`call_within` for another time)."""
        return await self._call(DEFAULT_WAIT, args, kwargs)

    async def call_within(self, timeout: Duration | None, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Like `call`, waiting up to `timeout` seconds; `None` waits for ever."""
        return await self._call(timeout, args, kwargs)

    async def _call(self, timeout: Duration | None, args: Any, kwargs: Any) -> R:
        refuse_to_wait(self._options)
        listener = await self._registry.client.listener()
        handle = await self._enqueue(args, kwargs, listener.address)
        return await handle.result(timeout)

    def enqueue_many(
        self, calls: Iterable[Call[Any]] | AsyncIterable[Call[Any]], *, chunk: int = 500, connection: Any = None
    ) -> Coroutine[Any, Any, Counts]:
        """Every call is in the store, once awaited; takes generators, and holds only a few chunks at a time."""
        return enqueue_all(self._registry.client, calls, chunk, connection or self._options.connection)

    def decode_result(self, data: bytes) -> R:
        """Return a stored result as the handler returned it."""
        value: R = self.signature.decode_result(data, self.result_codec)
        return value

    # --- steering

    async def adjust(self, *, clear: Iterable[str] = (), **settings: Any) -> Policy:
        """An operator's settings hold at once, for waiting jobs too, above what workers declare, until cleared.

        Settings: the fields of `Retry` (failures, stalls, timeouts, releases, initial, ...) and timeout.
        """
        return await adjust(self._registry.client.store, self.queue, self.name, settings, clear)

    # --- looking

    async def status(self, job_id: str) -> JobRecord:
        """Return the job with this id, as it stands."""
        return await self._registry.client.status(self.queue, job_id)

    async def result(self, job_id: str, timeout: Duration | None = DEFAULT_WAIT) -> R:
        """Return the result of the job with this id, waiting for it if need be."""
        record = await self.status(job_id)
        return self.decode_result(await self._registry.client.wait(self.queue, job_id, record.run, timeout))

    async def complete(self, job_id: str, result: R, run: int | None = None) -> Reply:
        """The job with this id, and the chain that it began, are over with this result, whoever works on it."""
        data = self.encode_result(result)
        return await self._registry.client.complete_chain(self.queue, job_id, run, data)

    async def cancel(self, job_id: str, running: Running = "refuse") -> Cancelled:
        """The job with this id is cancelled, or the answer says why not."""
        return await self._registry.client.cancel(self.queue, job_id, running)
