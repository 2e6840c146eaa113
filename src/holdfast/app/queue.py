"""A queue by name: plain payloads in, live settings, and its jobs."""

from __future__ import annotations

import itertools
from asyncio import Future
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar, Unpack

from ..client import DEFAULT_WAIT, Client, Handle, handed_over, refuse_update
from ..client.handle import CoroutineOf
from ..client.options import (
    JobOptions,
    prepared,
    refuse_keyless,
    refuse_own_blocker,
    refuse_to_wait,
    refuse_transaction,
)
from ..codec.plain import Hint
from ..core.bound import ASKED_AT_ONCE, CANCELLED_AT_ONCE, MOST_COUNT, MOST_COUNTED
from ..core.declaration import View
from ..core.duration import Duration, ttl_ms
from ..core.event import Event
from ..core.job import JobRecord
from ..core.limit import QueueSettings
from ..core.policy import Policy
from ..core.size import fit_payload
from ..core.transition import Reply
from ..core.word import check_text, check_words
from ..errors import ConfigError
from ..store.contract import CancelResult, Dependants, JobCount, JobPage, KeyInfo, KeyOrder, QueueInfo, Running
from .bulk import Call, EnqueueCounts, enqueue_all
from .filter import JobFilter, selected, to_requeue
from .options import Adjustments, LiveQueueOptions
from .registry import Registry
from .settings import adjust, check_live, queue_fields, resolve

T = TypeVar("T")
R = TypeVar("R")


class Queue(Generic[T, R]):
    """Made by `app.queue(name)`: payloads of type T in, results of type R out."""

    def __init__(self, registry: Registry, name: str) -> None:
        self._registry = registry
        self._options = prepared({})
        self.name = name

    def __repr__(self) -> str:
        return f"<Queue {self.name}>"

    @property
    def _client(self) -> Client:
        return self._registry.client

    @property
    def payload_type(self) -> Hint:
        """The type of its plain payloads, by `payload=` or the handler's annotation; `Any` where neither says."""
        return self._registry.plain_types(self.name)[0]

    def options(self, **options: Unpack[JobOptions]) -> Queue[T, R]:
        """Return this queue with options for the payloads that are enqueued through it."""
        twin: Queue[T, R] = Queue(self._registry, self.name)
        twin._options = self._options.above(options)
        return twin

    # --- plain payloads

    def _encoded(self, payload: T, path: str) -> bytes:
        layers = self._registry.layers(self.name)
        codec = self._registry.codec(resolve("codec", layers).value)
        data = codec.encode(payload, self.payload_type, path=path)
        return fit_payload(data, resolve("max_payload", layers).value, f"queue {self.name!r}", path)

    def _call(self, payload: T, watcher: str | None = None, path: str = "payload") -> Call[R]:
        producers = self._client.producers.middleware  # which may give it one
        if self._options.key is None and not producers and self._registry.key_required(self.name):
            refuse_keyless(f"queue {self.name!r}")
        job = self._options.job(None, self._encoded(payload, path), 0, None, watcher)
        return Call(self.name, refuse_own_blocker(self.name, job), self._options)

    def args(self, payload: T, **options: Unpack[JobOptions]) -> Call[R]:
        """Return a payload with its options: one job that is not enqueued yet."""
        return self.options(**options)._call(payload)

    def enqueue(self, payload: T, **options: Unpack[JobOptions]) -> CoroutineOf[Handle[R]]:
        """Enqueue a payload, once awaited, for the handler that the worker's queue names.

        With `connection=` it is in the caller's own transaction; see `Task.enqueue`.
        """
        chosen = self.options(**options) if options else self
        connection = self._client.connection(chosen._options.connection)
        if connection is None:
            return chosen._enqueue(payload)
        call = chosen._call(payload)
        answers = self._client.enqueue_in(connection, self.name, [call.job], call.options.conflict)
        return handed_over(self._client, self.name, answers, self.decode_result)

    def enqueue_nowait(self, payload: T, **options: Unpack[JobOptions]) -> Future[Handle[R]]:
        """Begin to enqueue a payload, and go on: it is in the store when the future has its handle, and not before.

        Payloads that are begun together share calls, and keep their order. `await app.flush()` waits for all of them.
        """
        chosen = self.options(**options) if options else self
        if self._client.connection(chosen._options.connection) is not None:
            refuse_transaction()
        return self._client.pending.add(chosen._enqueue(payload, call=chosen._call(payload)))

    async def _enqueue(self, payload: T, call: Call[R] | None = None) -> Handle[R]:
        call = call or self._call(payload)
        answers = await self._client.enqueue(self.name, [call.job], call.options.conflict)
        if answers[0].status == "refused":
            refuse_update(self.name, answers[0])
        return Handle(self._client, self.name, answers[0], self.decode_result)

    async def call(self, payload: T, *, wait: Duration | None = DEFAULT_WAIT, **options: Unpack[JobOptions]) -> R:
        """Return the result for a payload, waiting up to `wait` seconds."""
        chosen = self.options(**options)
        if chosen._options.connection is not None:
            refuse_to_wait()
        listener = self._client.listening or await self._client.listener()
        call = chosen._call(payload, listener.address)
        data = await self._client.call(listener, self.name, call.job, call.options.conflict, wait)
        return self.decode_result(data)

    def enqueue_many(
        self, payloads: Iterable[T] | AsyncIterable[T], *, chunk: int = ASKED_AT_ONCE, connection: object = None
    ) -> CoroutineOf[EnqueueCounts]:
        """Enqueue payloads, once awaited; takes generators."""
        numbers, connection = itertools.count(), connection or self._options.connection
        if isinstance(payloads, AsyncIterable):
            calls = (self._numbered(payload, next(numbers)) async for payload in payloads)
            return enqueue_all(self._client, calls, chunk, connection)
        made = (self._numbered(payload, next(numbers)) for payload in payloads)
        return enqueue_all(self._client, made, chunk, connection)

    def _numbered(self, payload: T, number: int) -> Call[R]:
        return self._call(payload, path=f"payloads[{number}]")

    def decode_result(self, data: bytes) -> R:
        """Return a stored result (`JobRecord.result`) of a plain job, of the type that `result=` says."""
        value: R = self._registry.decode_plain(self.name, data)
        return value

    # --- its jobs

    async def status(self, job_id: str) -> JobRecord:
        """Return the job with this id, as it stands."""
        return await self._client.look.status(self.name, job_id)

    async def result(self, job_id: str, timeout: Duration | None = DEFAULT_WAIT) -> R:
        """Return the result of the job with this id, waiting for it if need be."""
        record = await self.status(job_id)
        return self.decode_result(await self._client.wait(self.name, job_id, record.run, timeout))

    async def complete(self, job_id: str, result: R, run: int | None = None) -> Reply:
        """Complete the plain job with this id, and the chain that it began, also while a worker holds it."""
        data = self._registry.encode_result(self.name, None, result)
        return await self._client.complete_chain(self.name, job_id, run, data)

    async def cancel(self, job_id: str, running: Running = "refuse") -> CancelResult:
        """Cancel the job with this id, or return why not."""
        return await self._client.cancel(self.name, job_id, running)

    async def promote(self, job_id: str) -> Reply:
        """Promote a scheduled job: it may run now."""
        return await self._client.promote(self.name, job_id)

    async def delete(self, job_id: str) -> Reply:
        """Delete a job, in whatever state it is."""
        return await self._client.delete(self.name, job_id)

    async def requeue(
        self,
        *job_ids: str,
        limit: int = CANCELLED_AT_ONCE,
        dry_run: bool = False,
        **which: Unpack[JobFilter],
    ) -> list[tuple[str, str, int]]:
        """Requeue finished jobs: with these ids, or all failed ones that match. Return (queue, id, run) of each."""
        chosen = selected("requeue()", which, queue=self.name, ids=job_ids, states=to_requeue(job_ids))
        return await self._client.requeue(chosen, limit, dry_run)

    async def keep_result(self, job_id: str, ttl: Duration | None) -> Reply:
        """Keep a job's result for so long, from now or from its end; `math.inf`, or `None`, is for ever."""
        check_words(job_id=job_id)
        return await self._client.store.set_result_ttl(self.name, job_id, ttl_ms(ttl))

    async def jobs(
        self,
        *,
        ids: Sequence[str] | None = None,
        worker: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
        **which: Unpack[JobFilter],
    ) -> JobPage:
        """Return its jobs, newest first; those that a worker holds; with `ids`, the status of each that is there.

        A page may be short, or empty, and have a cursor: see `Holdfast.jobs`.
        """
        chosen = selected("jobs()", which, queue=self.name)
        return await self._client.look.jobs(chosen, limit, cursor, ids=ids, worker=worker)

    async def count(self, *, most: int = MOST_COUNTED, **which: Unpack[JobFilter]) -> JobCount:
        """Return how many of its jobs match, counted up to `most`."""
        return await self._client.look.count(selected("count()", which, queue=self.name), most)

    async def runs(self, job_id: str, *, limit: int = 50) -> list[JobRecord]:
        """Return the runs of an id that are kept, newest first, at most `limit` of them."""
        return await self._client.look.runs(self.name, job_id, limit)

    async def dependants(self, job_id: str, run: int | None = None, *, limit: int = 50) -> Dependants:
        """Return the jobs that wait for the chain of a job, at most `limit` of them, and how many there are."""
        return await self._client.look.dependants(self.name, job_id, run, limit)

    def events(
        self, *, job_id: str | None = None, after: str | None = None, follow: bool = False
    ) -> AsyncIterator[Event]:
        """Yield its events, or those of one of its jobs, in commit order."""
        return self._client.look.events(after=after, queue=self.name, id=job_id, follow=follow)

    # --- its settings

    async def info(self) -> QueueInfo | None:
        """Return its counts and settings, or `None` when the store does not know it yet."""
        return next((queue for queue in await self._client.look.queues() if queue.name == self.name), None)

    async def set(self, *, clear: Iterable[str] = (), **settings: Unpack[LiveQueueOptions]) -> QueueSettings:
        """Set what holds from the next claim on, above what workers declare, until cleared."""
        check_live((*clear, *settings))
        cleared = ["result_ttl_ms" if name == "result_ttl" else name for name in clear]
        return await self._client.store.configure(self.name, queue_fields(settings), cleared)

    async def pause(self) -> None:
        """Pause the queue: nothing is claimed from it until `resume`."""
        await self._client.store.configure(self.name, {"paused": True})

    async def resume(self) -> None:
        """Resume the queue: jobs are claimed again."""
        await self._client.store.configure(self.name, {"paused": False})

    async def adjust(self, task: str, *, clear: Iterable[str] = (), **settings: Unpack[Adjustments]) -> Policy:
        """Do as `Task.adjust`, for a task by name, which this process need not know."""
        return await adjust(self._client.store, self.name, task, settings, clear)

    async def policies(self) -> Mapping[str, Policy]:
        """Return the policy in force of every task that workers have declared here."""
        return await self._client.store.policies(self.name)

    async def layers(self) -> View:
        """Return what workers declared of it and its tasks, in which version, and what operators set above that."""
        return await self._client.look.layers(self.name)

    async def keys(self, *, order: KeyOrder = "busiest", limit: int = 50) -> list[KeyInfo]:
        """Return its concurrency keys with their jobs and limits: `busiest` or `starved` first, or by `name`."""
        return await self._client.look.keys(self.name, order, limit)

    async def limit_key(self, key: str, concurrency: int | None) -> None:
        """Give one key a concurrency of its own; `None` takes it away."""
        check_text(key, "key", "a concurrency key")
        if concurrency is not None and (type(concurrency) is not int or not 1 <= concurrency <= MOST_COUNT):
            raise ConfigError(f"concurrency={concurrency!r}: a whole number from 1 to {MOST_COUNT}, or None")
        await self._client.store.limit_key(self.name, key, concurrency)


AnyQueue = Queue[Any, Any]
"""A queue of which neither payload nor result are known to the type checker."""
