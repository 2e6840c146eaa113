"""A job as a result of Django's task interface."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

from django.utils.module_loading import import_string

from .... import errors
from ....core.job import ErrorRecord, JobRecord
from ....core.state import State
from .interface import Task, TaskError, TaskResult, TaskResultStatus

if TYPE_CHECKING:
    from .backend import HoldfastBackend

STATUS = {
    State.BLOCKED: TaskResultStatus.READY,
    State.SCHEDULED: TaskResultStatus.READY,
    State.WAITING: TaskResultStatus.READY,
    State.ACTIVE: TaskResultStatus.RUNNING,
    State.COMPLETED: TaskResultStatus.SUCCESSFUL,
    State.FAILED: TaskResultStatus.FAILED,
    State.CANCELLED: TaskResultStatus.FAILED,
}


async def result_of(backend: HoldfastBackend, record: JobRecord) -> TaskResult | None:
    """Return the result that a job is; `None` for a job that is no task of Django's."""
    handler = backend.app.registry.tasks.get(record.task or "")
    task = None if handler is None else import_string_or_none(handler.name)
    if handler is None or not isinstance(task, Task):
        return None
    args, kwargs = handler.signature.decode(record.payload, handler.codec)
    called = {**dict(zip(("args", "kwargs"), args, strict=False)), **kwargs}
    result = TaskResult(
        task=task.using(queue_name=record.queue, priority=record.priority, backend=backend.alias), id=record.id,
        status=STATUS[record.state], enqueued_at=record.enqueued_at, started_at=record.started_at,
        last_attempted_at=record.started_at, finished_at=record.finished_at, args=called["args"],
        kwargs=called["kwargs"], backend=backend.alias, errors=_errors(record.error),
        worker_ids=await _workers(backend, record),
    )  # fmt: skip
    if record.result is not None and record.state is State.COMPLETED:
        object.__setattr__(result, "_return_value", handler.decode_result(record.result))
    return result


def import_string_or_none(path: str) -> Any:
    """Return what a path names, or `None`."""
    try:
        return import_string(path)
    except ImportError:
        return None


def _errors(error: ErrorRecord | None) -> list[TaskError]:
    """Return the last error; the store keeps no earlier ones."""
    if error is None:
        return []
    return [TaskError(exception_class_path=class_path(error.type), traceback=error.traceback)]


def class_path(type: str) -> str:
    """Return the import path of an exception's class; records name Python's own, and ours, without their module."""
    if "." in type:
        return type
    if hasattr(builtins, type):
        return f"builtins.{type}"
    return f"holdfast.errors.{type if hasattr(errors, type) else 'JobError'}"


async def _workers(backend: HoldfastBackend, record: JobRecord) -> list[str]:
    """Return the worker of each attempt, by the event log; of those that it has no more, an empty name."""
    attempts = record.counters.attempts
    if attempts == 0:
        return []
    names = [""] * attempts
    async for event in backend.app.queue(record.queue).events(job_id=record.id):
        if event.run == record.run and event.transition == "claim" and 0 < event.attempt <= attempts:
            names[event.attempt - 1] = event.worker or ""
    if record.worker and not names[-1]:
        names[-1] = record.worker
    return names
