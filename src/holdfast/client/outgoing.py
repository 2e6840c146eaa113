"""Jobs on their way to the store, and the producer middleware that each of them passes."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack
from typing import Literal

import msgspec

from ..core.envelope import Envelope, check_headers, check_tags, opened
from ..core.limit import check_priority
from ..core.word import check_text
from ..errors import ConfigError
from ..handler.opening import Opening
from ..store.contract import Answer, NewJob

Origin = Literal["caller", "schedule", "chain"]
"""Who sends a job: a caller, a tick of a schedule, or a handler whose chain goes on with it."""
ProducerMiddleware = Callable[["OutgoingJob"], object]
"""Hears of each job before it is sent; one that yields, also of what became of it."""
Send = Callable[[Sequence[NewJob]], Awaitable[list[Answer]]]
OURS = "holdfast-"


class OutgoingJob:
    """A job on its way to the store. Middleware may change its headers, tags, key and priority, or raise."""

    __slots__ = ("_envelope", "_job", "answer", "headers", "key", "origin", "priority", "queue", "tags")

    def __init__(self, queue: str, job: NewJob, origin: Origin) -> None:
        self._job = job
        self._envelope = opened(job.envelope)
        self.queue = queue
        self.origin: Origin = origin
        self.headers = dict(self._envelope.headers)
        self.tags = list(self._envelope.tags)
        self.key = job.key
        self.priority = job.priority
        self.answer: Answer | None = None
        """What the store answered, once it did; `None` before, in a caller's transaction and for jobs of chains."""

    def __repr__(self) -> str:
        return f"<OutgoingJob {self.queue}/{self.id}>"

    @property
    def id(self) -> str:
        """The job's id."""
        return self._job.id

    @property
    def task(self) -> str | None:
        """The task's name; `None` for a plain payload."""
        return self._job.task

    @property
    def payload(self) -> bytes:
        """The encoded arguments."""
        return self._job.payload

    def changed(self) -> NewJob:
        """Return the job as middleware left it; raise for what no job can have."""
        before, job = self._envelope, self._job
        if self.key is not None and self.key != job.key:
            check_text(self.key, "key", "a concurrency key")
        if self.priority != job.priority:
            check_priority(self.priority)
        envelope = job.envelope
        if self.headers != before.headers or tuple(self.tags) != before.tags:
            envelope = self._sealed().encoded()
        return msgspec.structs.replace(job, key=self.key, priority=self.priority, envelope=envelope)

    def _sealed(self) -> Envelope:
        ours = {name: text for name, text in self._envelope.headers.items() if name.startswith(OURS)}
        own = {name: text for name, text in self.headers.items() if ours.get(name) != text}
        return msgspec.structs.replace(
            self._envelope, headers={**ours, **check_headers(own)}, tags=check_tags(self.tags)
        )


class Producers:
    """The producer middleware of an app: each job passes all of it, the first that was declared outermost."""

    def __init__(self) -> None:
        self.middleware: list[Opening[object]] = []
        """A hot path looks here whether there is any."""
        self.check: Callable[[str, NewJob], None] = lambda queue, job: None
        """Raises for a job that lacks something that middleware might have given it."""

    def add(self, fn: ProducerMiddleware) -> None:
        """Have every job pass the function, too."""
        if not callable(fn) or inspect.isclass(fn):
            raise ConfigError(f"@app.producer_middleware takes a function of (job), not {fn!r}")
        self.middleware.append(Opening(fn))

    async def around(self, queue: str, jobs: Sequence[NewJob], send: Send) -> list[Answer]:
        """Return what the store answers to jobs that were sent after all middleware had seen them."""
        async with AsyncExitStack() as stack:
            passing = [OutgoingJob(queue, job, "caller") for job in jobs]
            answers = await send([await self._enter(each, stack) for each in passing])
            for each, answer in zip(passing, answers, strict=True):
                each.answer = answer
        return answers

    async def alone(self, queue: str, job: NewJob, origin: Origin) -> NewJob:
        """Return a job as middleware leaves it, of which it does not hear what became."""
        async with AsyncExitStack() as stack:
            return await self._enter(OutgoingJob(queue, job, origin), stack)

    async def _enter(self, job: OutgoingJob, stack: AsyncExitStack) -> NewJob:
        for each in self.middleware:
            await each.enter(stack, job)
        return self._checked(job)

    def enter_here(self, queue: str, jobs: Sequence[NewJob], stack: ExitStack) -> list[NewJob]:
        """Return jobs of a caller as middleware leaves them, where nothing can be awaited."""
        if waiting := [each for each in self.middleware if each.is_async]:
            name = getattr(waiting[0].fn, "__name__", "it")
            raise ConfigError(
                f"producer middleware {name!r} is `async def`, and with connection= a job is sent without an event "
                "loop: make it `def`"
            )
        found = []
        for job in jobs:
            passing = OutgoingJob(queue, job, "caller")
            for each in self.middleware:
                each.enter_here(stack, passing)
            found.append(self._checked(passing))
        return found

    def _checked(self, job: OutgoingJob) -> NewJob:
        changed = job.changed()
        self.check(job.queue, changed)
        return changed
