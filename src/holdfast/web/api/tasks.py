"""The policies of tasks."""

from __future__ import annotations

from typing import cast

import msgspec

from ...app.options import Adjustments
from ...json import form as json_form
from ...json.form import JsonObject
from ..problem import Problem
from .endpoint import ApiCall, EndpointGroup
from .shapes import TaskList, TaskShape

group = EndpointGroup("tasks")
Unset = msgspec.UnsetType


class TasksQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Those of one queue, or all."""

    queue: str | None = None


class TaskName(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task of a queue; the empty name is that of plain payloads."""

    queue: str
    task: str
    create: bool = False
    """Also when no worker has declared the task yet."""


class PolicyForm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The numbers of a retry policy, and the time-out in seconds; null is no limit."""

    failures: int | Unset | None = msgspec.UNSET
    stalls: int | Unset | None = msgspec.UNSET
    timeouts: int | Unset | None = msgspec.UNSET
    releases: int | Unset | None = msgspec.UNSET
    attempts: int | Unset | None = msgspec.UNSET
    snoozes: int | Unset | None = msgspec.UNSET
    initial: float | Unset = msgspec.UNSET
    multiplier: float | Unset = msgspec.UNSET
    maximum: float | Unset = msgspec.UNSET
    jitter: float | Unset = msgspec.UNSET
    timeout: float | Unset | None = msgspec.UNSET

    def given(self) -> Adjustments:
        """Return what is given, as `queue.adjust` takes it."""
        found = {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not msgspec.UNSET}
        return cast(Adjustments, found)


class TaskForm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is set above what workers declare, and what goes back to that."""

    set: PolicyForm = PolicyForm()
    clear: tuple[str, ...] = ()


@group.add("GET", "/tasks", query=TasksQuery, answer=TaskList)
async def list_tasks(call: ApiCall[TasksQuery, None]) -> JsonObject:
    """List the tasks that workers have declared, with the policy in force."""
    queues, _ = await call.site.glance.queues()
    names = [info.name for info in queues if call.query.queue in (None, info.name)]
    found: list[JsonObject] = []
    for name in names:
        policies = await call.app.store.policies(name)
        found += [{"queue": name, "task": task, **json_form.policy(policy)} for task, policy in policies.items()]
    return {"tasks": found}


@group.add("PATCH", "/task", query=TaskName, body=TaskForm, answer=TaskShape)
async def adjust_task(call: ApiCall[TaskName, TaskForm]) -> JsonObject:
    """Set what holds at once, for waiting jobs too, above what workers declare, until it is cleared."""
    queue, task = call.app.queue(call.query.queue), call.query.task
    given = call.body.set.given()
    if not given and not call.body.clear:
        raise Problem(400, "bad-body", "give what is to be set, or the names of what is to be cleared")
    if not call.query.create and task not in await queue.policies():
        raise Problem(404, "task-unknown", f"no worker has declared a task {task!r} in queue {queue.name!r}")
    policy = await queue.adjust(task, clear=call.body.clear, **given)
    return {"queue": queue.name, "task": task, **json_form.policy(policy)}
