"""What an enqueue answered, and a way back to the job."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeAlias, TypeVar

from ..core.done import Done
from ..core.duration import Duration
from ..core.job import JobRecord
from ..core.state import State
from ..errors import ConfigError
from ..store.contract import Answer, CancelResult, ChainRecord, Running, Status
from .wait import DEFAULT_WAIT, OnProgress

if TYPE_CHECKING:
    from .client import Client

R = TypeVar("R")
T = TypeVar("T")
CoroutineOf: TypeAlias = Coroutine[Any, Any, T]
"""A coroutine that returns a `T`; what it yields meanwhile is the event loop's own."""
Decode = Callable[[bytes], Any]


class Handle(Generic[R]):
    """What an enqueue answered, and a way back to the job.

    status: "queued" (new), "duplicate" (another holds the id), "completed" (with its cached result),
    "updated", "successor" (runs after the active one), "requeued" (a failed one, started again) or, among
    many, "refused" (a later job of a chain, which cannot be updated).
    """

    __slots__ = ("_answer", "_client", "_decode", "queue")

    def __init__(self, client: Client, queue: str, answer: Answer, decode: Decode) -> None:
        self._client = client
        self._answer = answer
        self._decode = decode
        self.queue = queue

    def __repr__(self) -> str:
        return f"<Handle {self.queue}/{self.id} run {self.run}: {self.status}>"

    @property
    def status(self) -> Status:
        """What became of the enqueue."""
        return self._answer.status

    @property
    def id(self) -> str:
        """The job's id."""
        return self._answer.id

    @property
    def run(self) -> int:
        """The run that answers: the new one, or the one that was there."""
        return self._answer.run

    @property
    def state(self) -> State:
        """The state of that run when the enqueue was answered."""
        return self._answer.state

    async def result(self, timeout: Duration | None = DEFAULT_WAIT, *, on_progress: OnProgress | None = None) -> R:
        """Return the result of the run, or of the chain that it began, waiting for it.

        Raise when it fails, is cancelled or takes too long.

        `on_progress` is called with what the handler reports meanwhile.
        """
        data = await self._client.wait(self.queue, self.id, self.run, timeout, self._answer, on_progress=on_progress)
        value: R = self._decode(data)
        return value

    async def job(self) -> JobRecord:
        """Return the run as it stands now."""
        return await self._client.look.status(self.queue, self.id, self.run)

    async def chain(self) -> ChainRecord:
        """Return the chain of the run as it stands now."""
        return await self._client.look.chain(self.queue, self.id, self.run)

    async def cancel(self, running: Running = "refuse") -> CancelResult:
        """Cancel the job, or return why not."""
        return await self._client.cancel(self.queue, self.id, running)


def handed_over(
    client: Client, queue: str, answers: list[Answer] | Awaitable[list[Answer]], decode: Decode
) -> CoroutineOf[Handle[Any]]:
    """Return the handle of a job that was taken in by a caller's connection, or is when it is awaited."""
    if isinstance(answers, list):
        return Done(_handle(client, queue, answers, decode))
    return _handed_over(client, queue, answers, decode)


async def _handed_over(client: Client, queue: str, answers: Awaitable[list[Answer]], decode: Decode) -> Handle[Any]:
    return _handle(client, queue, await answers, decode)


def _handle(client: Client, queue: str, answers: list[Answer], decode: Decode) -> Handle[Any]:
    if answers[0].status == "refused":
        refuse_update(queue, answers[0])
    return Handle(client, queue, answers[0], decode)


def refuse_update(queue: str, answer: Answer) -> NoReturn:
    """Raise for an update that the store refused, so that no dispatch is dropped unheard."""
    raise ConfigError(
        f'{queue}/{answer.id} is a later job of a chain, which on_conflict="update" cannot change: '
        "give your job another id"
    )
