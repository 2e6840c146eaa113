"""A job as the API takes it in: a task with its arguments, or a plain payload, and its options."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, cast

import msgspec

from ...app.bulk import Call
from ...app.task import AnyTask
from ...client.options import Dedup, JobOptions, prepared, refuse_keyless, refuse_own_blocker
from ...codec import codec
from ...core.policy import Retry
from ...core.size import DEFAULT_SIZE, fit_payload
from ...errors import ConfigError
from ...json.call import typed_arguments, typed_payload
from ..problem import Problem
from ..site import Site


class BlockerName(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job or chain that must be over first; with no run, the one that answers for the id."""

    queue: str
    id: str
    run: int | None = None


class DedupForm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """At most one job with this key, per queue and task, whatever its id; `window` is in seconds."""

    key: str
    scope: Literal["incomplete", "any"] = "incomplete"
    window: float | None = None
    exclude: tuple[str, ...] = ()


class CallForm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task with its arguments, or a plain payload for a queue, and what goes with it."""

    task: str | None = None
    queue: str | None = None
    """Of a plain payload; of a task, only where the server does not know it."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    payload: Any = msgspec.UNSET
    """A plain payload, in place of a task."""
    priority: int | None = None
    key: str | None = None
    tags: list[str] | None = None
    headers: dict[str, str] | None = None
    retry: Retry | None = None
    timeout: float | None = None
    result_ttl: float | None = None

    def options(self) -> dict[str, Any]:
        """Return the options of the job, as Python has them."""
        names = (name for name in self.__struct_fields__ if name in JobOptions.__annotations__)
        return {name: value for name in names if (value := getattr(self, name)) is not None}


class NewJobForm(CallForm, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One job to be enqueued. Durations are seconds, instants ISO 8601 with a zone."""

    id: str | None = None
    delay: float | None = None
    run_at: datetime | None = None
    dedup: DedupForm | None = None
    on_conflict: Literal["keep", "update"] | None = None
    on_failed: Literal["keep", "requeue"] | None = None
    update_payload: bool | None = None
    update_run_at: bool | Literal["if_later", "if_earlier"] | None = None
    reset_counts: bool | None = None
    blockers: list[BlockerName] | None = None
    on_blocker_failed: Literal["fail", "cancel", "ignore"] | None = None

    def options(self) -> dict[str, Any]:
        """Return the options of the job, as Python has them."""
        found = super().options()
        if self.id is not None:
            found["job_id"] = self.id
        if self.dedup is not None:
            found["dedup"] = Dedup(**msgspec.structs.asdict(self.dedup))
        if self.blockers is not None:
            found["blockers"] = [_waitable(each) for each in self.blockers]
        return found


def _waitable(name: BlockerName) -> tuple[str, str] | tuple[str, str, int]:
    return (name.queue, name.id) if name.run is None else (name.queue, name.id, name.run)


async def call_of(site: Site, form: CallForm) -> Call[object]:
    """Return the job that a form describes, or say what is wrong with it."""
    if form.task is not None:
        if form.payload is not msgspec.UNSET:
            raise ConfigError("task and payload exclude each other: a task has args and kwargs")
        task = site.app.registry.tasks.get(form.task)
        return await _by_name(site, form, form.task) if task is None else _known(task, form)
    if form.queue is None or form.payload is msgspec.UNSET:
        raise ConfigError("give a task with args and kwargs, or a queue with a payload")
    if form.args or form.kwargs:
        raise ConfigError("args and kwargs are a task's: give the task, or put them into the payload")
    await _check_key(site, form.queue, form)
    queue = site.app.queue(form.queue)
    return queue.args(typed_payload(queue, form.payload), **cast(JobOptions, form.options()))


def _known(task: AnyTask, form: CallForm) -> Call[object]:
    """Return the call of a task that this server's app has, with values as its annotations want them."""
    if form.queue not in (None, task.queue):
        raise ConfigError(f"task {task.name!r} is in queue {task.queue!r}, and not in {form.queue!r}")
    args, kwargs = typed_arguments(task, form.args, form.kwargs)
    return cast("Call[object]", task.options(**cast(JobOptions, form.options())).args(*args, **kwargs))


async def _by_name(site: Site, form: CallForm, task: str) -> Call[object]:
    """Return the call of a task that only workers know: its arguments are as given, and checked when it runs."""
    if form.args:
        raise ConfigError(f"task {task!r} is not known to this server, only by name: give kwargs in place of args")
    queue = form.queue or await _queue_of(site, task)
    await _check_key(site, queue, form)
    options = prepared(cast(JobOptions, form.options()))
    data = codec("json").encode(form.kwargs, path="kwargs")
    payload = fit_payload(data, DEFAULT_SIZE, f"task {task!r}", "kwargs")
    return Call(queue, refuse_own_blocker(queue, options.job(task, payload, 0, None, None)), options)


async def _queue_of(site: Site, task: str) -> str:
    """Return the queue in which workers have declared a task."""
    queues, _ = await site.glance.queues()
    found = [queue.name for queue in queues if task in await site.app.store.policies(queue.name)]
    if len(found) == 1:
        return found[0]
    why = f"several queues have it ({', '.join(found)})" if found else "no worker has declared it"
    raise Problem(404 if not found else 400, "task-unknown", f"task {task!r}: {why}; give its queue")


async def _check_key(site: Site, queue: str, form: CallForm) -> None:
    """Raise for a job without a key in a queue whose workers say that every job has one."""
    if form.key is None:
        queues, _ = await site.glance.queues()
        if any(each.name == queue and each.settings.key_required for each in queues):
            refuse_keyless(f"queue {queue!r}")
