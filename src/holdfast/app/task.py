"""A function that can be enqueued, called and run somewhere else."""

from __future__ import annotations

import inspect
from asyncio import Future
from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Generic, ParamSpec, Protocol, TypeAlias, TypeVar, Unpack

from ..client import DEFAULT_WAIT, Client, Handle, handed_over, refuse_update
from ..client.handle import CoroutineOf
from ..client.options import (
    JobOptions,
    prepared,
    refuse_in_chain,
    refuse_keyless,
    refuse_own_blocker,
    refuse_to_wait,
    refuse_transaction,
)
from ..codec import Codec, Signature
from ..core.bound import ASKED_AT_ONCE
from ..core.duration import Duration
from ..core.job import JobRecord
from ..core.policy import Policy
from ..core.size import fit_payload, fit_result
from ..core.transition import Reply
from ..errors import ConfigError
from ..handler.continuation import Blocker, Continued
from ..store.contract import BlockerRecord, CancelResult, NewJob, Running
from .bulk import Call, EnqueueCounts, enqueue_all
from .home import Openable
from .options import Adjustments, Executor
from .resource import filled_in
from .settings import JobDefaults, Layer, Resolved, adjust, resolve, resolve_all

P = ParamSpec("P")
R = TypeVar("R")
WHOLE = 100
"""The units of a process."""


class TaskRegistry(Protocol):
    """What an app knows, as far as its tasks must know it."""

    client: Client
    app: Openable | None
    around: Callable[[Callable[..., Any]], Callable[..., Any]] | None
    """Returns a handler as executors are to call it, in the thread or loop in which it runs."""

    def layers(self, queue: str) -> tuple[Layer, ...]:
        """Return where a queue's settings come from, nearest first."""

    def codec(self, choice: str | Codec, name: str = "codec") -> Codec:
        """Return a codec by name, or the one given."""

    def policy(self, task: AnyTask) -> Policy:
        """Return what a worker declares of a task."""

    def explain(self, task: AnyTask, error: TypeError) -> None:
        """Add what the error of a call may come from."""

    def blocker(self, record: BlockerRecord) -> Blocker:
        """Return what a job waited for, decoded as the task that gave the result says."""


class Task(Generic[P, R]):
    """Made by `@app.task`. Calling it runs the function here and now; `enqueue` and `call` run it in a worker."""

    def __init__(
        self, registry: TaskRegistry, fn: Callable[P, Any], name: str, queue: str, layer: Layer, signature: Signature
    ) -> None:
        self._registry = registry
        self._options = prepared({})
        self.fn = fn if registry.around is None else registry.around(fn)
        """What executors call."""
        self.name = name
        self.queue = queue
        self.layer = layer
        self.defaults = JobDefaults(layer, partial(registry.layers, queue))
        self.signature = signature
        self.__name__ = name
        self.__doc__ = fn.__doc__
        self.__wrapped__: Callable[..., Any] = fn

    def __repr__(self) -> str:
        return f"<Task {self.name} in queue {self.queue}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Run the function itself, here, with no queue. Resources that it depends on must be open, or be passed."""
        signature, fn = self.signature, self.__wrapped__
        if signature.supplied or signature.injected:
            return fn(*args, **{**filled_in(fn, args, kwargs), **kwargs})
        return fn(*args, **kwargs)

    # --- settings

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Where this task's settings come from, nearest first."""
        return (self.layer, *self._registry.layers(self.queue))

    def setting(self, name: str) -> Any:
        """Return the value of a setting for this task."""
        return resolve(name, self.layers).value

    def settings(self) -> list[Resolved]:
        """Return every setting, with the place that decided it; what `options` set comes first."""
        own = {
            name: value
            for name, value in self._options.given.items()
            if name in ("retry", "timeout", "priority", "result_ttl")
        }
        won = resolve_all((Layer("job", own), *self.layers))
        policy = self.policy()  # which knows that fail handlers are retried for longer
        return [
            Resolved(each.name, policy.retry, each.source)
            if each.name == "retry" and each.source == "library"
            else each
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
    def key_required(self) -> bool:
        """True when each of its jobs must have a key."""
        required: bool = self.setting("key_required")
        return required

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
        """What a job takes: units of a process, a whole one unless it says otherwise; or slots, one unless it does."""
        size: int | None = self.setting("size")
        return size or (WHOLE if self.in_process else 1)

    @cached_property
    def slots(self) -> int:
        """The slots of its worker that a job takes: none in a process."""
        return 0 if self.in_process else self.size

    @property
    def registry(self) -> TaskRegistry:
        """What its app knows."""
        return self._registry

    @property
    def app(self) -> Openable | None:
        """The app that it belongs to."""
        return self._registry.app

    # --- options

    def options(self, **options: Unpack[JobOptions]) -> Task[P, R]:
        """Return this task with options for the jobs that are enqueued through it."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._options = self._options.above(options)
        return twin

    # --- producing

    def args(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """Return one call of this task, to be enqueued with others (`enqueue_many`)."""
        return Call(self.queue, self._job(args, kwargs), self._options)

    def _job(self, args: Sequence[object], kwargs: Mapping[str, object], watcher: str | None = None) -> NewJob:
        if self.key_required and self._options.key is None and not self._registry.client.producers.middleware:
            refuse_keyless(f"task {self.name!r}")
        payload, defaults = self.encode(args, kwargs), self.defaults
        job = self._options.job(self.name, payload, defaults.priority, defaults.result_ttl_ms, watcher)
        return refuse_own_blocker(self.queue, job) if job.blockers else job

    def encode(self, args: Sequence[object], kwargs: Mapping[str, object]) -> bytes:
        """Return arguments as a payload; raise for those that a worker would not get as they are."""
        try:
            payload = self.signature.encode(args, kwargs, self.codec)
        except TypeError as error:
            self._registry.explain(self, error)
            raise
        return payload if len(payload) <= self.max_payload else fit_payload(payload, self.max_payload, self.name)

    def decode_args(self, record: JobRecord) -> dict[str, Any]:
        """Return the arguments of one of its jobs by name, as its handler gets them; those not passed are left out."""
        if record.task != self.name:
            raise ConfigError(
                f"{record.queue}/{record.id} is a job of {record.task or 'no task'}, not of {self.name}: "
                "decode it with its own task"
            )
        return self.signature.arguments(record.payload, self.codec)

    def encode_result(self, result: object) -> bytes:
        """Return a result as it is stored; raise for one that would not come back as it is."""
        return fit_result(self.signature.encode_result(result, self.result_codec), self.max_result, self.name)

    def continued(self, *args: P.args, **kwargs: P.kwargs) -> Continued[R]:
        """Return this call as the next job of a chain; what `job.continue_with` does."""
        refuse_in_chain(self.name, self._options)
        client = self._registry.client
        passed = partial(client.producers.alone, self.queue, origin="chain") if client.producers.middleware else None
        return Continued(self.queue, self._job(args, kwargs), self.result_codec, client.store, passed)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> CoroutineOf[Handle[R]]:
        """Enqueue the job, once awaited; the handle says what became of it.

        With the option `connection` it is in the caller's own transaction instead; on a synchronous connection
        already when this returns, so that the coroutine only hands over the handle.
        """
        client = self._registry.client
        connection = client.connection(self._options.connection)
        if connection is None:
            return self._enqueue(args, kwargs)
        job = self._job(args, kwargs)
        answers = client.enqueue_in(connection, self.queue, [job], self._options.conflict)
        return handed_over(client, self.queue, answers, self.decode_result)

    def enqueue_nowait(self, *args: P.args, **kwargs: P.kwargs) -> Future[Handle[R]]:
        """Begin to enqueue the job, and go on: it is in the store when the future has its handle, and not before.

        Jobs that are begun together share calls, and keep their order. `await app.flush()` waits for all of them.
        """
        client = self._registry.client
        if client.connection(self._options.connection) is not None:
            refuse_transaction()
        return client.pending.add(self._enqueue((), {}, job=self._job(args, kwargs)))

    async def _enqueue(
        self, args: Sequence[object], kwargs: Mapping[str, object], job: NewJob | None = None
    ) -> Handle[R]:
        """Enqueue the job of these arguments, or one that is made already."""
        client, queue = self._registry.client, self.queue
        job = job or self._job(args, kwargs)
        answer = (await client.enqueue(queue, [job], self._options.conflict))[0]
        if answer.status == "refused":
            refuse_update(queue, answer)
        return Handle(client, queue, answer, self.decode_result)

    def call(self, *args: P.args, **kwargs: P.kwargs) -> CoroutineOf[R]:
        """Return the result of the job, once awaited; waits up to 30 s (`call_within` for another time)."""
        return self._call(DEFAULT_WAIT, args, kwargs)

    def call_within(self, timeout: Duration | None, /, *args: P.args, **kwargs: P.kwargs) -> CoroutineOf[R]:
        """Like `call`, waiting up to `timeout` seconds; `None` waits for ever."""
        return self._call(timeout, args, kwargs)

    async def _call(self, timeout: Duration | None, args: Sequence[object], kwargs: Mapping[str, object]) -> R:
        if self._options.connection is not None:
            refuse_to_wait()
        client = self._registry.client
        listener = client.listening or await client.listener()
        job = self._job(args, kwargs, listener.address)
        return self.decode_result(await client.call(listener, self.queue, job, self._options.conflict, timeout))

    def enqueue_many(
        self,
        calls: Iterable[Call[object]] | AsyncIterable[Call[object]],
        *,
        chunk: int = ASKED_AT_ONCE,
        connection: object = None,
    ) -> CoroutineOf[EnqueueCounts]:
        """Enqueue calls, once awaited; takes generators, and holds only a few chunks at a time."""
        return enqueue_all(self._registry.client, calls, chunk, connection or self._options.connection)

    def decode_result(self, data: bytes) -> R:
        """Return a stored result as the handler returned it."""
        value: R = self.signature.decode_result(data, self.result_codec)
        return value

    # --- steering

    async def adjust(self, *, clear: Iterable[str] = (), **settings: Unpack[Adjustments]) -> Policy:
        """Set what holds at once, for waiting jobs too, above what workers declare, until cleared.

        Settings: the fields of `Retry` (failures, stalls, timeouts, releases, initial, ...) and timeout.
        """
        return await adjust(self._registry.client.store, self.queue, self.name, settings, clear)

    # --- looking

    async def status(self, job_id: str) -> JobRecord:
        """Return the job with this id, as it stands."""
        return await self._registry.client.look.status(self.queue, job_id)

    async def result(self, job_id: str, timeout: Duration | None = DEFAULT_WAIT) -> R:
        """Return the result of the job with this id, waiting for it if need be."""
        record = await self.status(job_id)
        return self.decode_result(await self._registry.client.wait(self.queue, job_id, record.run, timeout))

    async def complete(self, job_id: str, result: R, run: int | None = None) -> Reply:
        """Complete the job with this id, and the chain that it began, also while a worker holds it."""
        data = self.encode_result(result)
        return await self._registry.client.complete_chain(self.queue, job_id, run, data)

    async def cancel(self, job_id: str, running: Running = "refuse") -> CancelResult:
        """Cancel the job with this id, or return why not."""
        return await self._registry.client.cancel(self.queue, job_id, running)


AnyTask: TypeAlias = Task[Any, Any]
"""A task, whatever its handler takes and returns."""
