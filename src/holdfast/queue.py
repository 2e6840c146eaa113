"""A queue by name: plain payloads in, live settings, and its jobs."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterable, AsyncIterator, Coroutine, Iterable, Mapping
from typing import Any

from .bulk import Counts, enqueue_all
from .client import DEFAULT_WAIT, Client, Handle, handed_over, new_id, refuse_update
from .core.duration import Duration, to_ms
from .core.event import Event
from .core.job import JobRecord
from .core.limit import MOST_COUNT, QueueSettings
from .core.policy import Policy
from .core.size import fit_payload
from .core.state import State
from .core.transition import Reply
from .core.word import check_words
from .errors import ConfigError
from .option import Options, check_text, refuse_own_blocker, refuse_to_wait
from .registry import Registry
from .settings import QUEUE_SETTINGS, adjust, queue_fields, resolve
from .store.contract import Cancelled, Filter, JobPage, NewJob, QueueInfo, Running
from .task import Call


class Queue:
    """Made by `app.queue(name)`."""

    def __init__(self, registry: Registry, name: str) -> None:
        self._registry = registry
        self.name = name

    def __repr__(self) -> str:
        return f"<Queue {self.name}>"

    @property
    def _client(self) -> Client:
        return self._registry.client

    def _codec(self, name: str) -> Any:
        return self._registry.codec(resolve(name, self._registry.layers(self.name)).value)

    # --- plain payloads

    def _encoded(self, payload: Any, path: str) -> bytes:
        data: bytes = self._codec("codec").encode(payload, Any, path=path)
        limit = resolve("max_payload", self._registry.layers(self.name)).value
        return fit_payload(data, limit, f"queue {self.name!r}", path)

    def _call(self, payload: Any, options: Options, watcher: str | None = None, path: str = "payload") -> Call[Any]:
        prepared = options.prepared()
        job = NewJob(
            id=options.job_id or new_id(),
            task=None,
            payload=self._encoded(payload, path),
            fresh=options.job_id is None,
            run_at_ms=prepared.run_at_ms,
            delay_ms=prepared.delay_ms,
            priority=options.priority or 0,
            key=options.key,
            headers=options.headers,
            overrides=prepared.overrides,
            result_ttl_ms=prepared.result_ttl_ms,
            dedup=prepared.dedup,
            watcher=watcher,
            blockers=prepared.blockers,
            on_blocker_failed=options.on_blocker_failed,
        )
        return Call(self.name, refuse_own_blocker(self.name, job), prepared, options.connection)

    def args(self, payload: Any, **options: Any) -> Call[Any]:
        """Return a payload with its options: one job that is not enqueued yet."""
        return self._call(payload, Options().with_(**options))

    def enqueue(self, payload: Any, **options: Any) -> Coroutine[Any, Any, Handle[Any]]:
        """The payload is a job in the store, once awaited, for the handler that the worker's queue names.

        With `connection=` it is in the caller's own transaction; see `Task.enqueue`.
        """
        if options.get("connection") is None:
            return self._enqueue(payload, options)
        call = self.args(payload, **options)
        answers = self._client.enqueue_in(call.connection, self.name, [call.job], call.prepared.conflict)
        return handed_over(self._client, self.name, answers, self._decode)

    async def _enqueue(self, payload: Any, options: Mapping[str, Any], watcher: str | None = None) -> Handle[Any]:
        call = self._call(payload, Options().with_(**options), watcher)
        answers = await self._client.enqueue(self.name, [call.job], call.prepared.conflict)
        refuse_update(self.name, answers[0])
        return Handle(self._client, self.name, answers[0], self._decode, watcher is not None)

    async def call(self, payload: Any, *, wait: Duration | None = DEFAULT_WAIT, **options: Any) -> Any:
        """Return the result for a payload, waiting up to `wait` seconds."""
        refuse_to_wait(Options().with_(**options))
        listener = await self._client.listener()
        handle = await self._enqueue(payload, options, listener.address)
        return await handle.result(wait)

    def enqueue_many(
        self, payloads: Iterable[Any] | AsyncIterable[Any], *, chunk: int = 500, connection: Any = None
    ) -> Coroutine[Any, Any, Counts]:
        """Every payload is a job in the store, once awaited; takes generators."""
        numbers = itertools.count()
        if isinstance(payloads, AsyncIterable):
            calls = (self._numbered(payload, next(numbers)) async for payload in payloads)
            return enqueue_all(self._client, calls, chunk, connection)
        made = (self._numbered(payload, next(numbers)) for payload in payloads)
        return enqueue_all(self._client, made, chunk, connection)

    def _numbered(self, payload: Any, number: int) -> Call[Any]:
        return self._call(payload, Options(), path=f"payloads[{number}]")

    def _decode(self, data: bytes) -> Any:
        return self._codec("result_codec").decode(data)

    # --- its jobs

    async def status(self, job_id: str) -> JobRecord:
        """Return the job with this id, as it stands."""
        return await self._client.status(self.name, job_id)

    async def result(self, job_id: str, timeout: Duration | None = DEFAULT_WAIT) -> Any:
        """Return the result of the job with this id, waiting for it if need be."""
        record = await self.status(job_id)
        return self._decode(await self._client.wait(self.name, job_id, record.run, timeout))

    async def cancel(self, job_id: str, running: Running = "refuse") -> Cancelled:
        """The job with this id is cancelled, or the answer says why not."""
        return await self._client.cancel(self.name, job_id, running)

    async def promote(self, job_id: str) -> Reply:
        """A scheduled job may run now."""
        return await self._client.promote(self.name, job_id)

    async def delete(self, job_id: str) -> Reply:
        """The job is gone, in whatever state it was."""
        return await self._client.delete(self.name, job_id)

    async def requeue(
        self,
        *job_ids: str,
        state: str | None = None,
        task: str | None = None,
        limit: int = 1000,
        dry_run: bool = False,
    ) -> list[tuple[str, str, int]]:
        """Finished jobs run anew: those with these ids, or all failed ones that match. (queue, id, run) of each."""
        states = (known_state(state),) if state else (FINISHED if job_ids else (State.FAILED,))
        which = Filter(queue=self.name, ids=job_ids, states=states, task=task)
        return await self._client.requeue(which, limit, dry_run)

    async def keep_result(self, job_id: str, ttl: Duration) -> Reply:
        """The job's result is kept for so long, from now or from its end."""
        check_words(job_id=job_id)
        return await self._client.store.set_result_ttl(self.name, job_id, to_ms(ttl, "ttl"))

    async def jobs(
        self,
        *,
        state: str | None = None,
        task: str | None = None,
        key: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> JobPage:
        """Return its jobs, newest first."""
        states = (known_state(state),) if state else ()
        return await self._client.jobs(Filter(queue=self.name, states=states, task=task, key=key), limit, cursor)

    def events(
        self, *, job_id: str | None = None, after: str | None = None, follow: bool = False
    ) -> AsyncIterator[Event]:
        """Yield its events, or those of one of its jobs, in commit order."""
        return self._client.events(after=after, queue=self.name, id=job_id, follow=follow)

    # --- its settings

    async def info(self) -> QueueInfo | None:
        """Return its counts and settings, or `None` when the store does not know it yet."""
        return next((queue for queue in await self._client.queues() if queue.name == self.name), None)

    async def set(self, *, clear: Iterable[str] = (), **settings: Any) -> QueueSettings:
        """An operator's settings hold at the next claim, above what workers declare, until cleared."""
        if unknown := [name for name in clear if name not in QUEUE_SETTINGS]:
            raise ConfigError(f"{unknown[0]!r} is not a setting of a queue; known are {', '.join(QUEUE_SETTINGS)}")
        cleared = ["result_ttl_ms" if name == "result_ttl" else name for name in clear]
        return await self._client.store.configure(self.name, queue_fields(settings), cleared)

    async def pause(self) -> None:
        """Nothing is claimed from it until `resume`."""
        await self._client.store.configure(self.name, {"paused": True})

    async def resume(self) -> None:
        """Jobs are claimed again."""
        await self._client.store.configure(self.name, {"paused": False})

    async def adjust(self, task: str, *, clear: Iterable[str] = (), **settings: Any) -> Policy:
        """Like `Task.adjust`, for a task by name, which this process need not know."""
        return await adjust(self._client.store, self.name, task, settings, clear)

    async def policies(self) -> Mapping[str, Policy]:
        """Return the policy in force of every task that workers have declared here."""
        return await self._client.store.policies(self.name)

    async def limit_key(self, key: str, concurrency: int | None) -> None:
        """One key has a concurrency of its own; `None` takes it away."""
        check_text(key, "key", "a concurrency key")
        if concurrency is not None and (type(concurrency) is not int or not 1 <= concurrency <= MOST_COUNT):
            raise ConfigError(f"concurrency={concurrency!r}: a whole number from 1 to {MOST_COUNT}, or None")
        await self._client.store.limit_key(self.name, key, concurrency)


FINISHED = (State.COMPLETED, State.FAILED, State.CANCELLED)


def known_state(name: str) -> State:
    """Return the state of that name."""
    try:
        return State(name)
    except ValueError:
        raise ConfigError(f"state={name!r} is none; known are {', '.join(State)}") from None
