"""What apps, queues, tasks and workers may be told by keyword, each option spelled once, with its type.

Options of a single job are in `client.options`. The nearest of job, task, queue and app that says something decides.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol, TypedDict

from ..codec import Codec
from ..core.duration import Duration
from ..core.limit import Rate, Retention
from ..core.policy import Retry
from ..core.sandbox import Sandbox
from ..errors import ConfigError
from ..handler.middleware import Middleware
from ..telemetry.observer import Observer

Executor = Literal["inline", "thread", "process", "sandbox"]


class FailHandler(Protocol):
    """A task, as far as the one whose failures it handles must know it."""

    name: str
    queue: str
    fn: Callable[..., object]


class AppOptions(TypedDict, total=False):
    """What an app, a queue and a task may say of jobs."""

    retry: Retry | None
    timeout: Duration | None
    result_ttl: Duration | None
    codec: str | Codec | None
    result_codec: str | Codec | None
    max_payload: int | None
    max_result: int | None
    executor: Executor | None
    size: int | None
    sandbox: Sandbox | None


class TaskOptions(AppOptions, total=False):
    """What a queue and a task may say of jobs."""

    lease: Duration | None
    """A job is taken over no sooner than so long after its worker was last heard."""
    priority: int | None
    """Of a task: of its jobs, among those of a queue and key. Of a queue: its own, among the queues of a worker."""
    completion: Literal["staged", "atomic"] | None
    on_failure: FailHandler | None
    key_required: bool | None


class QueueLimits(TypedDict, total=False):
    """Settings of a queue itself, which code may declare and operators may set."""

    paused: bool
    concurrency: int | None
    key_concurrency: int | None
    rate: Rate | None
    key_rate: Rate | None
    retention: Retention | Mapping[str, object]
    history: Literal["events", "payloads"]


class QueueOptions(TaskOptions, QueueLimits, total=False):
    """What `app.queue` may say: of the queue's jobs, and of the queue itself."""

    key_limits: Mapping[str, int]


class LiveQueueOptions(QueueLimits, total=False):
    """What an operator may set of a queue, with `queue.set`."""

    priority: int
    result_ttl: Duration | None


class Adjustments(TypedDict, total=False):
    """What an operator may set of a task, with `task.adjust`: the numbers of `Retry`, and its time-out."""

    failures: int | None
    stalls: int | None
    timeouts: int | None
    releases: int | None
    attempts: int | None
    snoozes: int | None
    initial: float
    multiplier: float
    maximum: float
    jitter: float
    timeout: Duration | None


class WorkerOptions(TypedDict, total=False):
    """What a worker may be told, by `app.worker`, by `WorkerProcesses` and on the command line; see `Worker`."""

    slots: int
    lease: Duration | None
    heartbeat: Duration | None
    claim_interval: Duration
    poll: Duration
    drain: Duration
    grace: Duration
    wedged_after: Duration | None
    name: str | None
    on_evicted: Literal["restart", "exit"]
    on_stuck: Literal["keep", "exit"]
    pool: int | None
    recycle_jobs: int | None
    recycle_memory: int | None
    guard: bool
    middleware: Sequence[Middleware]
    logger: str | logging.Logger | None
    log_jobs: bool
    observers: Sequence[Observer]
    metrics_port: int | str | None
    health_port: int | str | None
    metrics_host: str
    development: bool | None


OF_A_PROGRAM = frozenset({"middleware", "logger", "observers"})
"""Options of a worker that are objects of its own process, so that no command has them."""
WORKER_COMMAND_OPTIONS = tuple(name for name in WorkerOptions.__annotations__ if name not in OF_A_PROGRAM)
"""Options of a worker that are options of `holdfast worker`, under the same names."""


DEVELOPMENT = "HOLDFAST_DEVELOPMENT"
_SWITCH = {"": False, "0": False, "false": False, "no": False, "off": False} | dict.fromkeys(
    ("1", "true", "yes", "on"), True
)


def is_development(*given: bool | None) -> bool:
    """Return the first that says something, else what HOLDFAST_DEVELOPMENT says: code is edited and started again."""
    for each in given:
        if each is not None:
            if type(each) is not bool:
                raise ConfigError(f"development={each!r}: True, False, or None for what {DEVELOPMENT} says")
            return each
    word = os.environ.get(DEVELOPMENT, "")
    if word.lower() not in _SWITCH:
        raise ConfigError(f"{DEVELOPMENT}={word!r}: 1 or 0")
    return _SWITCH[word.lower()]


def known_options(what: str, given: Mapping[str, object], known: type) -> dict[str, object]:
    """Return the options, or raise for the first of them that is none of the known ones, which type checkers know."""
    names = known.__annotations__
    for name in given:
        if name not in names:
            raise ConfigError(f"{what}: {name!r} is no option of it; known are {', '.join(names)}")
    return dict(given)
