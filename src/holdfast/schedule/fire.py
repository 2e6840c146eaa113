"""Firing: the ticks that are due become jobs, in the step that moves the schedule on."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import msgspec

from ..client import new_id
from ..client.outgoing import Producers
from ..core import schedule as core
from ..core.schedule import Plan, Schedule
from ..core.tick import tick_name
from ..core.transition import Reply
from ..handler.job import SCHEDULE_HEADER, TICK_HEADER
from ..store.contract import KEEP, Conflict, DedupSpec, Fired, NewJob, ScheduleChange, ScheduleRow, Store
from ..telemetry import traces
from .row import change_of, read

log = logging.getLogger("holdfast")
SUCCESSOR = Conflict(on_conflict="update", update_run_at="if_earlier")
"""A job that waits keeps its place: ticks that come faster than its turn must not put it off for ever."""


class Shot(msgspec.Struct, frozen=True):
    """What became of a schedule that was due."""

    schedule: Schedule
    ticks: list[int]
    fired: Fired


async def fire(store: Store, row: ScheduleRow, now_ms: int, producers: Producers | None = None) -> Shot:
    """The ticks up to now are dealt with and their jobs enqueued, in one step, unless another worker was quicker.

    A job that producer middleware refuses is left out, and its tick is over.
    """
    schedule = read(row)
    firing = core.due(schedule, now_ms)
    jobs, conflict = jobs_of(schedule, firing.ticks)
    if producers is not None and producers.middleware:
        jobs = [each for job in jobs if (each := await _passed(producers, row, job)) is not None]
    if firing.after is None:
        change = ScheduleChange(queue=row.queue, name=row.name, expected=row.revision, revision=new_id())
    else:
        change = change_of(msgspec.structs.replace(firing.after, revision=new_id()), row.revision)
    return Shot(schedule, firing.ticks, await sent(store, change, jobs, conflict))


async def _passed(producers: Producers, row: ScheduleRow, job: NewJob) -> NewJob | None:
    try:
        return await producers.alone(row.queue, job, "schedule")
    except Exception:
        log.exception(
            "tick_refused: schedule %s of queue %s: producer middleware raised for %s", row.name, row.queue, job.id
        )
        return None


async def sent(store: Store, change: ScheduleChange, jobs: list[NewJob], conflict: Conflict) -> Fired:
    """Return what became of a change whose jobs are sent with it, traced."""
    sending = traces.sending() if jobs else None
    if sending is None:
        return await store.put_schedule(change, jobs, conflict)
    with traces.sent(sending):
        fired = await store.put_schedule(change, sending.stamp(change.queue, jobs), conflict)
        sending.end(fired.answers) if fired.reply is Reply.OK else sending.drop()
    return fired


def jobs_of(schedule: Schedule, ticks: Iterable[int | None]) -> tuple[list[NewJob], Conflict]:
    """Return the jobs of some ticks (`None`: now, for no tick), and what happens where one is there already."""
    plan = schedule.plan
    conflict = SUCCESSOR if plan.overlap == "successor" else KEEP
    return [_job(schedule.name, plan, tick) for tick in ticks], conflict


def _job(name: str, plan: Plan, tick: int | None) -> NewJob:
    when = {} if tick is None else {TICK_HEADER: tick_name(tick)}
    own = f"{name}/{new_id() if tick is None else tick_name(tick)}"
    return NewJob(
        id=name if plan.overlap == "successor" else own,
        task=plan.task,
        payload=plan.payload,
        priority=plan.priority,
        key=plan.key,
        envelope=plan.envelope.with_headers({SCHEDULE_HEADER: name, **when}).encoded(),
        overrides=plan.overrides,
        result_ttl_ms=plan.result_ttl_ms,
        dedup=DedupSpec(key=f"{SCHEDULE_HEADER}/{name}") if plan.overlap == "skip" else None,
    )
