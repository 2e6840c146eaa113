"""What runs a task of Django's interface as a job: its context, its signals, and its result as JSON."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from traceback import format_exception
from typing import Any

from django.utils import timezone

from ....handler.job import Job
from .interface import (
    BaseTaskBackend,
    Task,
    TaskContext,
    TaskError,
    TaskResult,
    TaskResultStatus,
    normalize_json,
    task_backends,
    task_finished,
    task_started,
)

BACKEND = "holdfast_backend"
"""Where a handler has the alias of the backend that declared it."""
HEADER = "django-backend"
"""Where a job has the alias of the backend that enqueued it, if that is another."""


def handler_of(task: Task, backend: BaseTaskBackend) -> Callable[..., Any]:
    """Return the handler of a task of Django's: of the same kind, `def` or `async def`."""
    make = _awaited if inspect.iscoroutinefunction(task.func) else _called
    handler = make(task, backend)
    handler.__module__, handler.__qualname__ = task.func.__module__, task.func.__qualname__
    handler.__doc__ = task.func.__doc__
    setattr(handler, BACKEND, backend.alias)
    return handler


def _called(task: Task, backend: BaseTaskBackend) -> Callable[..., Any]:
    def handler(job: Job, args: list[Any], kwargs: dict[str, Any]) -> Any:
        with attempt(task, backend, job, args, kwargs) as running:
            task_started.send(type(backend), task_result=running.result)
            try:
                value = normalize_json(task.func(*running.arguments, **kwargs))
            except BaseException as error:
                if running.is_over(error):
                    task_finished.send(type(backend), task_result=running.result)
                raise
            task_finished.send(type(backend), task_result=running.succeeded(value))
        return value

    return handler


def _awaited(task: Task, backend: BaseTaskBackend) -> Callable[..., Any]:
    async def handler(job: Job, args: list[Any], kwargs: dict[str, Any]) -> Any:
        with attempt(task, backend, job, args, kwargs) as running:
            await task_started.asend(type(backend), task_result=running.result)
            try:
                value = normalize_json(await task.func(*running.arguments, **kwargs))
            except BaseException as error:
                if running.is_over(error):
                    await task_finished.asend(type(backend), task_result=running.result)
                raise
            await task_finished.asend(type(backend), task_result=running.succeeded(value))
        return value

    return handler


@contextmanager
def attempt(
    task: Task, backend: BaseTaskBackend, job: Job, args: list[Any], kwargs: dict[str, Any]
) -> Iterator[TaskAttempt]:
    """Yield the attempt that a job is."""
    yield TaskAttempt(task, backend, job, args, kwargs)


class TaskAttempt:
    """One attempt, and the result of Django's that is shown to its task and to receivers of signals."""

    def __init__(self, task: Task, backend: BaseTaskBackend, job: Job, args: list[Any], kwargs: dict[str, Any]) -> None:
        self._job = job
        if alias := job.headers.get(HEADER):
            task, backend = task.using(backend=alias, queue_name=job.queue), task_backends[alias]
        now = timezone.now()
        self.result = TaskResult(
            task=task.using(queue_name=job.queue, priority=job.priority), id=job.id, status=TaskResultStatus.RUNNING,
            enqueued_at=job.enqueued_at, started_at=now, last_attempted_at=now, finished_at=None, args=args,
            kwargs=kwargs, backend=backend.alias, errors=[], worker_ids=[job.worker] * job.attempt,
        )  # fmt: skip

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What the task is called with, its context first where it takes one."""
        context = (TaskContext(task_result=self.result),) if self.result.task.takes_context else ()
        return (*context, *self.result.args)

    def succeeded(self, value: object) -> TaskResult:
        """Return the result with what the task returned."""
        self._end(TaskResultStatus.SUCCESSFUL)
        object.__setattr__(self.result, "_return_value", value)
        return self.result

    def is_over(self, error: BaseException) -> bool:
        """Note what the task raised; return whether that is the end of it, or it will be tried again."""
        kind = type(error)
        path = f"{kind.__module__}.{kind.__qualname__}"
        self.result.errors.append(TaskError(exception_class_path=path, traceback="".join(format_exception(error))))
        if not self._job.last_attempt:
            return False
        self._end(TaskResultStatus.FAILED)
        return True

    def _end(self, status: TaskResultStatus) -> None:
        object.__setattr__(self.result, "status", status)
        object.__setattr__(self.result, "finished_at", timezone.now())
