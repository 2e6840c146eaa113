"""A job as its handler sees it."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, ParamSpec, Protocol, TypeVar

import msgspec

from ..codec import codec as find_codec
from ..core.chain import ChainRef
from ..core.duration import LATEST_MS, Duration, to_datetime, ttl_ms
from ..core.job import ErrorRecord, Progress
from ..core.policy import Counters, Retry, is_last
from ..core.transition import Reply
from ..errors import ConfigError, LeaseLost
from ..store.contract import Abort, Claimed, Lease
from .abort import Signal
from .block import Block
from .continuation import Blocker, ChainTask, Continued

P = ParamSpec("P")
R = TypeVar("R")
SCHEDULE_HEADER = "holdfast-schedule"
TICK_HEADER = "holdfast-tick"
MOST_CHECKPOINT = 64 * 1024
MOST_MESSAGE = 4 * 1024
_making = threading.Lock()
_current: ContextVar[Job | None] = ContextVar("holdfast_job", default=None)


class FailedJob(msgspec.Struct, frozen=True, kw_only=True):
    """The job for whose sake a fail handler runs."""

    queue: str
    id: str
    run: int
    task: str | None
    counters: Counters
    error: ErrorRecord
    key: str | None = None
    priority: int = 0
    run_at_ms: int = 0
    tags: tuple[str, ...] = ()

    @property
    def run_at(self) -> datetime:
        """When its last attempt was due."""
        return datetime.fromtimestamp(min(self.run_at_ms, LATEST_MS) / 1000, UTC)


class Transaction:
    """A transaction on the store's database. What is written with its connection is committed with the block."""

    __slots__ = ("connection",)

    def __init__(self, connection: Any) -> None:
        self.connection = connection


class Completion(Transaction):
    """A transaction whose end completes the job, with this result."""

    __slots__ = ("result",)

    def __init__(self, connection: Any, result: object) -> None:
        super().__init__(connection)
        self.result = result


class HandlerTransactions(Protocol):
    """The transactions of an attempt, in which its handler writes and completes."""

    def prepare(self, job: Job) -> Block[Transaction]:
        """Return a transaction in which the handler reads and writes."""

    def complete(self, job: Job, result: object) -> Block[Completion]:
        """Return a transaction in which the handler writes, and the job is completed."""


class Surroundings(Protocol):
    """Where an attempt runs, as far as its handler may ask."""

    @property
    def worker(self) -> str:
        """The worker's name."""

    def retry(self, claimed: Claimed) -> Retry:
        """Return what limits a job."""


Report = Callable[[Lease, Progress | None, bytes | None], Awaitable[Reply]]
WaitedFor = Callable[[Lease], Awaitable[list[Blocker]]]


def _no_transaction_any_more() -> HandlerTransactions:
    raise ConfigError("the attempt is over, so it cannot be prepared or completed any more: await both in the handler")


class Job:
    """The attempt that a handler is running. Ask for it by annotation: `async def send(job: Job, to: str)`."""

    __slots__ = (
        "_around",
        "_claimed",
        "_context",
        "_report",
        "_signal",
        "_transactions",
        "_ttl_ms",
        "_waited_for",
    )  # fmt: skip

    def __init__(
        self,
        claimed: Claimed,
        report: Report,
        transactions: Callable[[], HandlerTransactions],
        around: Surroundings,
        waited_for: WaitedFor | None = None,
    ) -> None:
        self._around = around
        self._claimed = claimed
        self._report = report
        self._transactions = transactions
        self._waited_for = waited_for
        self._ttl_ms: int | None = None
        self._signal: Signal | None = None
        self._context: dict[str, Any] | None = None

    def _close(self) -> None:
        """The attempt is over for its worker."""
        self._transactions = _no_transaction_any_more

    def __repr__(self) -> str:
        return f"<Job {self.queue}/{self.id} run {self.run} attempt {self.attempt}>"

    @property
    def signal(self) -> Signal:
        """Fires when the handler should stop, with the reason."""
        if self._signal is None:
            with _making:  # its handler's thread may ask just when the loop fires it
                self._signal = self._signal or Signal()
        return self._signal

    @property
    def abort_reason(self) -> Abort | None:
        """Why the handler should stop; `None` while it need not."""
        return None if self._signal is None else self._signal.reason

    @property
    def context(self) -> dict[str, Any]:
        """Room for what middleware gives to the handler."""
        if self._context is None:
            self._context = {}
        return self._context

    @property
    def has_context(self) -> bool:
        """True when middleware has put something there."""
        return bool(self._context)

    @property
    def lease(self) -> Lease:
        """The token of this attempt."""
        return self._claimed.lease

    @property
    def queue(self) -> str:
        """The queue it was taken from."""
        return self._claimed.lease.queue

    @property
    def id(self) -> str:
        """The caller's id for it, or a generated one."""
        return self._claimed.lease.id

    @property
    def run(self) -> int:
        """The number of this life of the id; never reused."""
        return self._claimed.lease.run

    @property
    def attempt(self) -> int:
        """1 for the first start of the handler in this run."""
        return self._claimed.lease.attempt

    @property
    def task(self) -> str | None:
        """The task's name; `None` for a job of a plain queue."""
        return self._claimed.task

    @property
    def counters(self) -> Counters:
        """How often it was started, and how often it came back, by cause."""
        return self._claimed.counters

    @property
    def worker(self) -> str:
        """The name of the worker that runs it."""
        return self._around.worker

    @property
    def retry(self) -> Retry:
        """What limits it: its caller's word, or its task's policy with operators' settings, as last heard."""
        return self._around.retry(self._claimed)

    @property
    def timeout(self) -> float | None:
        """How many seconds each attempt may run, by the policy as it stood at its claim; `None` is no time-out."""
        return None if self._claimed.timeout_ms is None else self._claimed.timeout_ms / 1000

    @property
    def last_attempt(self) -> bool:
        """True when a failure of this attempt would be final, by the limits of failures and of all attempts."""
        return is_last(self.retry, self.counters, self.attempt - self._claimed.spared)

    @property
    def snoozes(self) -> int:
        """How often its handler asked to run later in this run."""
        return self._claimed.snoozes

    @property
    def last_error(self) -> ErrorRecord | None:
        """What the attempt before this one left, if it went wrong."""
        return self._claimed.last_error

    @property
    def priority(self) -> int:
        """Higher first, from -1000 to 1000."""
        return self._claimed.priority

    @property
    def key(self) -> str | None:
        """Its concurrency key."""
        return self._claimed.key

    @property
    def headers(self) -> dict[str, str]:
        """What its caller sent along beside the payload: a copy, as jobs without headers share one empty envelope."""
        return dict(self._claimed.envelope.headers)

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags that its caller gave it."""
        return self._claimed.envelope.tags

    @property
    def payload(self) -> bytes:
        """The encoded arguments."""
        return self._claimed.payload

    @property
    def run_at(self) -> datetime | None:
        """When it was due."""
        return to_datetime(self._claimed.run_at_ms)

    @property
    def enqueued_at(self) -> datetime | None:
        """When it was taken in."""
        return to_datetime(self._claimed.enqueued_at_ms)

    @property
    def schedule(self) -> str | None:
        """The schedule that enqueued it, if one did."""
        return self._claimed.envelope.headers.get(SCHEDULE_HEADER)

    @property
    def tick(self) -> datetime | None:
        """The tick of the schedule for which it runs; `None` for a job that no tick enqueued."""
        name = self._claimed.envelope.headers.get(TICK_HEADER)
        return datetime.fromisoformat(name) if name else None

    @property
    def failed(self) -> FailedJob | None:
        """In a fail handler: the job that failed, with its counters and error."""
        failed = self._claimed.envelope.failed
        return None if failed is None else msgspec.convert({**failed, "tags": self.tags}, FailedJob)

    @property
    def checkpoint(self) -> Any:
        """What an earlier attempt saved with `save`, or `None`."""
        blob = self._claimed.checkpoint
        return None if blob is None else msgspec.json.decode(blob)

    def keep_result(self, ttl: Duration | None) -> None:
        """The result of this attempt is kept for so long; `math.inf`, or `None`, is for ever."""
        self._ttl_ms = ttl_ms(ttl)

    @property
    def result_ttl_ms(self) -> int | None:
        """What `keep_result` set."""
        return self._ttl_ms

    async def progress(self, fraction: float | None = None, message: str = "") -> None:
        """Say how far the job is. In a `def` handler: `app.sync(job.progress(0.5))`."""
        number = fraction is None or (isinstance(fraction, int | float) and not isinstance(fraction, bool))
        if not number or (fraction is not None and not 0 <= fraction <= 1):
            raise ConfigError(f"progress({fraction!r}): a fraction from 0 to 1, or None with a message alone")
        if not isinstance(message, str):
            raise ConfigError(f"progress(message={message!r}): a string")
        progress = Progress(fraction=fraction, message=message)
        check_report(progress, None)
        self._check(await self._report(self.lease, progress, None))

    async def save(self, checkpoint: object) -> None:
        """The next attempt, if there is one, finds this as `job.checkpoint`. Small JSON, up to 64 kB."""
        blob = find_codec("json").encode(checkpoint, Any, path="checkpoint")
        check_report(None, blob)
        self._check(await self._report(self.lease, None, blob))

    def complete(self, result: object = None) -> Block[Completion]:
        """The handler's own writes and the job's completion are committed together, at the end of the block.

            async with job.complete() as tx:
                await tx.connection.execute("UPDATE ...")
                tx.result = "done"

        In a `def` handler it is `with job.complete() as tx:`, and the connection is one that waits.

        A raise inside undoes both, and the attempt ends with it. When the lease is gone, `LeaseLost` is raised
        at the end of the block, and nothing was written.
        """
        return self._transactions().complete(self, result)

    def prepare(self) -> Block[Transaction]:
        """A transaction before the work: short, and committed with the block.

        With `completion="atomic"` it stays open instead, and `complete` goes on in it.
        """
        return self._transactions().prepare(self)

    @property
    def chain(self) -> ChainRef:
        """The chain that it belongs to, known by its first job, which may be itself."""
        return self._claimed.chain or ChainRef(self.queue, self.id, self.run)

    @property
    def position(self) -> int:
        """Its place in its chain: 0 for the first job."""
        return self._claimed.position

    def continue_with(self, task: ChainTask[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Continued[R]:
        """Return what the handler returns to go on with another job of the same chain.

            async def reserve(job: Job, order: int) -> Continued[Receipt]:
                return job.continue_with(charge, order)

        The step that completes this job enqueues the next, with the options that `task.options(...)` set.
        """
        if not hasattr(task, "continued"):
            raise ConfigError(f"continue_with({task!r}): give a task, as @app.task() makes it")
        return task.continued(*args, **kwargs)

    async def blockers(self) -> list[Blocker]:
        """Return the chains that this job waited for, with their results, in the order of its `blockers` option."""
        return await self._waited_for(self.lease) if self._waited_for is not None else []

    def _check(self, reply: Reply) -> None:
        if reply is not Reply.OK:
            raise LeaseLost(f"{self!r} is no longer held by this worker ({reply}): stop, nothing of it will count")


def check_report(progress: Progress | None, checkpoint: bytes | None) -> None:
    """Raise when what a handler reports is too large to be kept with its job, which every store writes anew each time.

    A process that may lie reports too, so the worker asks again.
    """
    if checkpoint is not None and len(checkpoint) > MOST_CHECKPOINT:
        raise ConfigError(f"a checkpoint is at most 64 kB, and this one has {len(checkpoint)} bytes: store a reference")
    if progress is not None and len(progress.message) > MOST_MESSAGE:
        raise ConfigError(
            f"progress(message=...): at most {MOST_MESSAGE} characters, and this one has {len(progress.message)}"
        )


def current_job() -> Job | None:
    """Return the job that this code runs for, if any."""
    return _current.get()
