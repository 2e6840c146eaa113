"""What a handler returns when another job goes on where it ends, and what a job that waited for others sees of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

import msgspec

from ..codec import Codec
from ..core.chain import ChainRef, continuation_id, is_of_chain
from ..core.job import ErrorRecord
from ..core.state import State
from ..errors import ConfigError
from ..store import Store, same_jobs, shown
from ..store.contract import Continuation, NewJob
from ..telemetry import traces

P = ParamSpec("P")
R = TypeVar("R", covariant=True)
Pass = Callable[[NewJob], Awaitable[NewJob]]


class Continued(Generic[R]):
    """Made by `job.continue_with(task, ...)` and returned by the handler: the chain's result will be an `R`."""

    __slots__ = ("_codec", "_job", "_pass", "_queue", "_store")

    def __init__(self, queue: str, job: NewJob, codec: Codec, store: Store, passed: Pass | None = None) -> None:
        self._queue = queue
        self._pass = passed
        """Has the job pass the producer middleware of its app, where there is any."""
        self._job = job
        self._codec = codec
        self._store = store

    async def pass_producers(self) -> None:
        """Have the next job pass producer middleware, before the attempt is settled."""
        if self._pass is not None:
            self._job, self._pass = await self._pass(self._job), None

    def refuse_elsewhere(self, store: Store) -> None:
        """Raise when the chain is in this store, and the workers of its next task look into another."""
        if not same_jobs(store, self._store):
            raise ConfigError(
                f"continue_with({self._job.task}): this chain is in {shown(store.url)!r}, and that task of an app on "
                f"{shown(self._store.url)!r}, whose workers do not see it: give both apps one URL, or enqueue it there"
            )

    def after(self, chain: ChainRef, position: int, codec: Codec) -> Continuation:
        """Return the next job of the chain, as stores take it. `codec` is what the chain's result is read with."""
        if codec is not self._codec:
            raise ConfigError(
                f"continue_with({self._job.task}): its result codec is another than that of the job before it, "
                "by which whoever waits for the chain reads the result: give both tasks the same"
            )
        own = next((ref for ref in self._job.blockers if is_of_chain(ref, chain, position)), None)
        if own is not None:
            raise ConfigError(
                f"continue_with({self._job.task}): {own.queue}/{own.id} is of its own chain, which cannot end "
                "before it does: leave it out of blockers="
            )
        id = continuation_id(chain, position + 1, self._queue)
        envelope = traces.onward(self._job.envelope)
        return Continuation(self._queue, msgspec.structs.replace(self._job, id=id, fresh=False, envelope=envelope))


class ChainTask(Protocol[P, R]):
    """A task, as far as a chain that continues with it must know it."""

    def continued(self, *args: P.args, **kwargs: P.kwargs) -> Continued[R]:
        """Return a call of it as the next job of a chain."""


class Blocker(msgspec.Struct, frozen=True, kw_only=True):
    """One of the chains that a job waited for, and how it ended."""

    queue: str
    id: str
    run: int | None
    state: State
    result: Any = None
    """What its last handler returned."""
    error: ErrorRecord | None = None
    """Why it did not complete; seen by jobs with `on_blocker_failed="ignore"`."""
