"""The backend of Django's task interface (DEP 14): its tasks are tasks of Holdfast, its results are jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from django.core.checks import CheckMessage, Error
from django.utils import timezone

from ....app.app import Holdfast
from ....app.task import AnyTask
from ....client.options import JobOptions
from ....core.policy import Retry
from ....errors import ConfigError
from ..aliases import get_app
from ..configuration import DEFAULT, aliases
from .handler import BACKEND, HEADER, handler_of
from .interface import (
    BaseTaskBackend,
    Task,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_enqueued,
)
from .result import result_of

ONCE = Retry(failures=1)
"""What Django says: a task that raises has failed."""
OF_JOBS = ("retry", "timeout", "result_ttl")
"""Options of a task that a single job may have instead."""


class HoldfastBackend(BaseTaskBackend):
    """`TASKS = {"default": {"BACKEND": "holdfast.contrib.django.backend.HoldfastBackend"}}`.

    `OPTIONS`: `ALIAS`, the alias of `HOLDFAST` whose store has the jobs, and options of a task of Holdfast's, such as
    `retry`, `timeout` and `result_ttl`, for all tasks of the backend.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, params)
        given = dict(self.options)
        self.holdfast_alias: str = given.pop("ALIAS", DEFAULT)
        self.task_options: dict[str, Any] = {"retry": ONCE, **given}
        for queue in sorted(self.queues):
            self.app.registry.queue(queue)

    @property
    def app(self) -> Holdfast:
        """The app in whose store the jobs are."""
        return get_app(self.holdfast_alias)

    def validate_task(self, task: Task) -> None:
        """Raise for a task that cannot be one, and let workers know one that can: Django calls this at declaration."""
        super().validate_task(task)
        self._known(task)
        self.app.registry.queue(task.queue_name)  # with `QUEUES` empty, Django allows any

    def _known(self, task: Task) -> AnyTask:
        """Return the task of Holdfast's that runs one of Django's."""
        known = self.app.registry.tasks.get(task.module_path)
        if known is None:
            make = self.app.task(name=task.module_path, queue=task.queue_name, **self.task_options)
            known = make(handler_of(task, self))
        return known

    def _call(self, task: Task) -> AnyTask:
        """Return it with the options of one call, in the queue that the call names."""
        known = self._known(task)
        given: JobOptions = {**self._options_over(known), "priority": task.priority, "run_at": task.run_after}
        call = known.options(**given)
        call.queue = task.queue_name
        return call

    def _options_over(self, known: AnyTask) -> JobOptions:
        """Return what a job must carry so that it runs as this backend says, where its task belongs to another."""
        if getattr(known.__wrapped__, BACKEND, self.alias) == self.alias:
            return {}
        own = {name: self.task_options[name] for name in OF_JOBS if name in self.task_options}
        return cast(JobOptions, {**own, "headers": {HEADER: self.alias}})

    def enqueue(self, task: Task, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult:
        """Enqueue a job, and return its result, which is not there yet; in `atomic`, it is part of the transaction."""
        self.validate_task(task)
        result = self._new(task, args, kwargs)
        handle = self.app.sync(self._call(task).enqueue(result.args, result.kwargs))
        return self._enqueued(result, handle.id)

    async def aenqueue(self, task: Task, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult:
        """Do as `enqueue`, in an event loop."""
        self.validate_task(task)
        result = self._new(task, args, kwargs)
        handle = await self._call(task).enqueue(result.args, result.kwargs)
        object.__setattr__(result, "id", handle.id)
        object.__setattr__(result, "enqueued_at", timezone.now())
        await task_enqueued.asend(type(self), task_result=result)
        return result

    def _enqueued(self, result: TaskResult, id: str) -> TaskResult:
        object.__setattr__(result, "id", id)
        object.__setattr__(result, "enqueued_at", timezone.now())
        task_enqueued.send(type(self), task_result=result)
        return result

    def _new(self, task: Task, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult:
        return TaskResult(
            task=task, id="", status=TaskResultStatus.READY, enqueued_at=None, started_at=None,
            last_attempted_at=None, finished_at=None, args=list(args), kwargs=dict(kwargs), backend=self.alias,
            errors=[], worker_ids=[],
        )  # fmt: skip

    def get_result(self, result_id: str) -> TaskResult:
        """Return the result with this id, as it stands; raise `TaskResultDoesNotExist` when there is none."""
        return self.app.sync(self.aget_result(result_id))

    async def aget_result(self, result_id: str) -> TaskResult:
        """Do as `get_result`, in an event loop."""
        found = (await self.app.jobs(ids=[result_id])).jobs if result_id and isinstance(result_id, str) else []
        for record in found:
            if (result := await result_of(self, record)) is not None:
                return result
        raise TaskResultDoesNotExist(result_id)

    def check(self, **kwargs: object) -> Iterable[CheckMessage]:
        """Say what is wrong with the settings of this backend."""
        yield from super().check(**kwargs)
        where = f"TASKS[{self.alias!r}]"
        try:
            known = aliases()
        except ConfigError:
            return  # which the checks of HOLDFAST say
        if self.holdfast_alias not in known:
            yield Error(
                f"{where}: ALIAS={self.holdfast_alias!r} is no alias of HOLDFAST; it has {', '.join(known)}.",
                hint="Name one of them in OPTIONS, or leave ALIAS out for 'default'.", id="holdfast.E011",
            )  # fmt: skip
        try:
            Holdfast("memory://").task(**self.task_options)
        except (ConfigError, TypeError) as error:
            yield Error(
                f"{where}: OPTIONS: {error}", id="holdfast.E012",
                hint="OPTIONS take ALIAS, and options of a task of Holdfast's: retry, timeout, result_ttl, ...",
            )  # fmt: skip
