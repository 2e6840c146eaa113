"""Schedules: list, add, change, pause, trigger, remove."""

from __future__ import annotations

from typing import Any

import msgspec

from ...core.schedule import CatchUp, Overlap
from ...core.tick import Spec
from ...json.form import JsonObject
from ..problem import Problem
from .endpoint import ApiCall, EndpointGroup
from .job_actions import EmptyForm
from .names import ScheduleName
from .new_job import CallForm, call_of
from .shapes import EnqueueAnswer, RemovedShape, ScheduleList, ScheduleShape
from .tasks import TasksQuery

group = EndpointGroup("schedules")
RULES = ("catch_up", "limit", "grace", "overlap")


class RulesForm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When, and by which rules: `{"type": "cron", "text": "0 3 * * *", "tz": "UTC"}`, or `every`, or `at`."""

    spec: Spec | None = None
    call: CallForm | None = None
    catch_up: CatchUp | None = None
    limit: int | None = None
    grace: float | None = None
    overlap: Overlap | None = None

    def rules(self) -> dict[str, Any]:
        """Return the rules that are given."""
        return {name: value for name in RULES if (value := getattr(self, name)) is not None}


class NewScheduleForm(RulesForm, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new schedule: its name, when it fires, and the call that each tick enqueues."""

    name: str


class ScheduleForm(RulesForm, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What changes, above what the code declares, and what goes back to that."""

    clear: tuple[str, ...] = ()


@group.add("GET", "/schedules", query=TasksQuery, answer=ScheduleList)
async def list_schedules(call: ApiCall[TasksQuery, None]) -> JsonObject:
    """List every schedule, with its next ticks."""
    found = await call.app.schedules.list(call.query.queue)
    return {"schedules": [call.site.shown.schedule(each) for each in found]}


@group.add("GET", "/schedule", query=ScheduleName, answer=ScheduleShape)
async def get_schedule(call: ApiCall[ScheduleName, None]) -> JsonObject:
    """Show one schedule."""
    return call.site.shown.schedule(await call.app.schedules.get(call.query.name, queue=call.query.queue))


@group.add("POST", "/schedules", body=NewScheduleForm, answer=ScheduleShape)
async def add_schedule(call: ApiCall[Any, NewScheduleForm]) -> JsonObject:
    """Add a schedule: each of its ticks enqueues the call.

    `spec` is `{"type": "cron", "text": "0 3 * * *", "tz": "UTC"}`, `{"type": "every", "seconds": 90}` or
    `{"type": "at", "when": "2026-11-15T09:30:00Z"}`; `call` is a job as `POST /jobs` takes it, without an id.
    """
    form = call.body
    if form.spec is None or form.call is None:
        raise Problem(400, "bad-body", "a new schedule has a spec and a call")
    made = await call_of(call.site, form.call)
    return call.site.shown.schedule(await call.app.schedules.add(form.name, form.spec, made, **form.rules()))


@group.add("PATCH", "/schedule", query=ScheduleName, body=ScheduleForm, answer=ScheduleShape)
async def change_schedule(call: ApiCall[ScheduleName, ScheduleForm]) -> JsonObject:
    """Change a schedule, above what the code declares, until it is cleared."""
    form, query = call.body, call.query
    made = None if form.call is None else await call_of(call.site, form.call)
    if form.spec is None and made is None and not form.rules() and not form.clear:
        raise Problem(400, "bad-body", "give what is to change, or the names of what is to be cleared")
    changed = await call.app.schedules.change(
        query.name, queue=query.queue, spec=form.spec, call=made, clear=form.clear, **form.rules()
    )
    return call.site.shown.schedule(changed)


@group.add("POST", "/schedule/pause", query=ScheduleName, body=EmptyForm, answer=ScheduleShape)
async def pause_schedule(call: ApiCall[ScheduleName, EmptyForm]) -> JsonObject:
    """Fire nothing until it is resumed. What it has enqueued goes on."""
    return call.site.shown.schedule(await call.app.schedules.pause(call.query.name, queue=call.query.queue))


@group.add("POST", "/schedule/resume", query=ScheduleName, body=EmptyForm, answer=ScheduleShape)
async def resume_schedule(call: ApiCall[ScheduleName, EmptyForm]) -> JsonObject:
    """Fire again, from the next tick on."""
    return call.site.shown.schedule(await call.app.schedules.resume(call.query.name, queue=call.query.queue))


@group.add("POST", "/schedule/trigger", query=ScheduleName, body=EmptyForm, answer=EnqueueAnswer)
async def trigger_schedule(call: ApiCall[ScheduleName, EmptyForm]) -> JsonObject:
    """Enqueue one job of a schedule now, by its rule for overlaps; its ticks go on as before."""
    handle = await call.app.schedules.trigger(call.query.name, queue=call.query.queue)
    return {
        "status": handle.status, "queue": handle.queue, "id": handle.id, "run": handle.run, "state": handle.state,
    }  # fmt: skip


@group.add("DELETE", "/schedule", query=ScheduleName, answer=RemovedShape)
async def remove_schedule(call: ApiCall[ScheduleName, None]) -> JsonObject:
    """Remove a schedule. One that the code declares comes back with the next worker: pause that."""
    found = await call.app.schedules.remove(call.query.name, queue=call.query.queue)
    declared = found is not None and found.declared is not None
    return {"name": call.query.name, "removed": True, "declared": declared}
