"""Schedules: stored with their queue, changed live, and fired by whichever worker comes first."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from .client import Handle, new_id
from .core import schedule as core
from .core.duration import Duration, to_ms
from .core.schedule import CatchUp, Overlap, Plan, Schedule
from .core.tick import At, Cron, Every, Spec, tick_name
from .core.transition import Reply
from .errors import ConfigError, ScheduleMissing, StoreBusy
from .job import SCHEDULE_HEADER, TICK_HEADER
from .option import check_text
from .registry import Registry
from .store.contract import KEEP, Conflict, DedupSpec, Fired, NewJob, ScheduleChange, ScheduleRow, Store
from .task import Call

log = logging.getLogger("holdfast")
MOST_TRIES = 50
MOST_NAME_BYTES = 255
SUCCESSOR = Conflict(on_conflict="update")
RULES = ("catch_up", "limit", "grace", "overlap")
CHANGEABLE = ("spec", "call", *RULES)
Decide = Callable[[Schedule | None, int], Schedule | None]


class Schedules:
    """Made by `app.schedules`. A schedule is known by its queue and name; the name alone will do while it is one's."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.bells: set[Callable[[], object]] = set()
        """Rung when this process has changed a schedule, so that its own workers need not find out by themselves."""

    @property
    def _store(self) -> Store:
        return self._registry.client.store

    # --- looking

    async def list(self, queue: str | None = None) -> list[Schedule]:
        """Return every schedule that can be read here, by queue and name."""
        return [each for row in await self._store.schedules(queue) if isinstance(each := _readable(row), Schedule)]

    async def get(self, name: str, *, queue: str | None = None) -> Schedule:
        """Return a schedule as it stands."""
        return _read(await self._find(name, queue))

    async def _find(self, name: str, queue: str | None) -> ScheduleRow:
        found = await self._store.schedules(queue, name)
        if not found:
            where = "" if queue is None else f" in queue {queue!r}"
            raise ScheduleMissing(f"there is no schedule {name!r}{where}; see `holdfast schedules list`")
        if len(found) > 1:
            queues = ", ".join(row.queue for row in found)
            raise ConfigError(f"there is a schedule {name!r} in several queues ({queues}): give queue=")
        return found[0]

    # --- changing

    async def add(
        self,
        name: str,
        spec: Spec,
        call: Call[Any],
        *,
        catch_up: CatchUp = "one",
        limit: int = 100,
        grace: Duration = 60.0,
        overlap: Overlap = "allow",
    ) -> Schedule:
        """The schedule is there: each of its ticks enqueues the call. One that is there just so is left alone."""
        plan = plan_of(name, spec, call, catch_up=catch_up, limit=limit, grace=grace, overlap=overlap)
        wanted = core.fields(plan)

        def decide(found: Schedule | None, now_ms: int) -> Schedule:
            if found is not None and (found.declared is not None or found.plan != plan):
                raise ConfigError(
                    f"there is a schedule {name!r} in queue {call.queue!r} already: change it, or remove it"
                )
            return found or _coming(core.change(Schedule(queue=call.queue, name=name), wanted, (), now_ms))

        return await self._decided(call.queue, name, decide)

    async def change(
        self,
        name: str,
        *,
        queue: str | None = None,
        spec: Spec | None = None,
        call: Call[Any] | None = None,
        catch_up: CatchUp | None = None,
        limit: int | None = None,
        grace: Duration | None = None,
        overlap: Overlap | None = None,
        clear: Iterable[str] = (),
    ) -> Schedule:
        """What is given holds from now on, above what the code declares; what is cleared is as declared again."""
        row = await self._find(name, queue)
        rules = {"catch_up": catch_up, "limit": limit, "grace": grace, "overlap": overlap}
        given = {each: value for each, value in rules.items() if value is not None}
        cleared = _stored_names(clear)

        def decide(found: Schedule | None, now_ms: int) -> Schedule:
            if found is None:
                raise ScheduleMissing(f"schedule {name!r} was removed meanwhile")
            changed = core.change(found, _changes(found, spec, call, given), cleared, now_ms)
            return changed if spec is None else _coming(changed)

        return await self._decided(row.queue, name, decide)

    async def pause(self, name: str, *, queue: str | None = None) -> Schedule:
        """Nothing fires until `resume`; workers that declare it again do not change that."""
        return await self._pause(name, queue, True)

    async def resume(self, name: str, *, queue: str | None = None) -> Schedule:
        """It fires again, from its next tick on."""
        return await self._pause(name, queue, False)

    async def _pause(self, name: str, queue: str | None, paused: bool) -> Schedule:
        def decide(found: Schedule | None, now_ms: int) -> Schedule:
            if found is None:
                raise ScheduleMissing(f"schedule {name!r} was removed meanwhile")
            return core.pause(found, paused, now_ms)

        return await self._decided((await self._find(name, queue)).queue, name, decide)

    async def remove(self, name: str, *, queue: str | None = None) -> None:
        """The schedule is gone. One that code declares comes back with the next worker that does: pause that."""
        row = await self._find(name, queue)
        for _ in range(MOST_TRIES):
            change = ScheduleChange(queue=row.queue, name=name, expected=row.revision, revision=new_id())
            if (await self._store.put_schedule(change)).reply is not Reply.STALE:
                return
            row = await self._find(name, row.queue)
        raise _contended(row.queue, name)

    async def trigger(self, name: str, *, queue: str | None = None) -> Handle[Any]:
        """One more job of the schedule is enqueued now, by its rule for overlaps; its ticks go on as before."""
        schedule = await self.get(name, queue=queue)
        jobs, conflict = jobs_of(schedule, [None])
        answers = await self._registry.client.enqueue(schedule.queue, jobs, conflict)
        return Handle(
            self._registry.client, schedule.queue, answers[0], self._registry.decoder(schedule.queue, schedule.task)
        )

    async def declare(self, queues: Iterable[str]) -> None:
        """What the code declares of these queues is in the store, unless a higher version is there already."""
        declared = {place: plan for place, plan in self._registry.schedules.items() if place[0] in queues}
        for queue in dict.fromkeys(queue for queue, _ in declared):
            rows = {row.name: row for row in await self._store.schedules(queue)}
            for name, plan in ((name, plan) for (place, name), plan in declared.items() if place == queue):
                found = _readable(rows[name]) if name in rows else None
                if isinstance(found, ConfigError):  # by a newer worker, say, which knows what it is doing
                    log.error("%s; this worker leaves it alone", found)
                    continue
                decide = _declaring(queue, name, plan, self._registry.version)
                if found is None or decide(found, 0) != found:
                    await self._decided(queue, name, decide)

    async def _decided(self, queue: str, name: str, decide: Decide) -> Schedule:
        """Return the schedule as `decide` wants it, written if nobody changed it meanwhile, else decided again."""
        store = self._store
        for _ in range(MOST_TRIES):
            row = next(iter(await store.schedules(queue, name)), None)
            found = None if row is None else _read(row)
            wanted = decide(found, await store.now_ms())
            assert wanted is not None
            if wanted == found:
                return wanted
            wanted = msgspec.structs.replace(wanted, revision=new_id())
            if (await store.put_schedule(_change(wanted, row.revision if row else None))).reply is Reply.OK:
                self._ring()
                return wanted
        raise _contended(queue, name)

    def _ring(self) -> None:
        for bell in tuple(self.bells):
            bell()


# --- firing


class Shot(msgspec.Struct, frozen=True):
    """What became of a schedule that was due."""

    schedule: Schedule
    ticks: list[int]
    fired: Fired


async def fire(store: Store, row: ScheduleRow, now_ms: int) -> Shot:
    """The ticks up to now are dealt with and their jobs enqueued, in one step, unless another worker was quicker."""
    schedule = _read(row)
    firing = core.due(schedule, now_ms)
    jobs, conflict = jobs_of(schedule, firing.ticks)
    if firing.after is None:
        change = ScheduleChange(queue=row.queue, name=row.name, expected=row.revision, revision=new_id())
    else:
        change = _change(msgspec.structs.replace(firing.after, revision=new_id()), row.revision)
    return Shot(schedule, firing.ticks, await store.put_schedule(change, jobs, conflict))


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
        headers={**plan.headers, SCHEDULE_HEADER: name, **when},
        overrides=plan.overrides,
        result_ttl_ms=plan.result_ttl_ms,
        dedup=DedupSpec(key=f"{SCHEDULE_HEADER}/{name}") if plan.overlap == "skip" else None,
    )


def plan_of(name: str, spec: Spec, call: Call[Any], **rules: Any) -> Plan:
    """Return what a schedule is to do, or say what is wrong with it."""
    check_text(name, "schedule", "a name")
    if len(name.encode()) > MOST_NAME_BYTES:
        raise ConfigError(f"schedule {name!r}: a name is at most {MOST_NAME_BYTES} bytes")
    if not isinstance(spec, Cron | Every | At):
        raise ConfigError(f"schedule {name!r}: {spec!r}: give Cron(text), Every(seconds) or At(when)")
    return Plan(spec=spec, **_call_fields(name, call), **_rule_fields(rules))


def _rule_fields(rules: dict[str, Any]) -> dict[str, Any]:
    stored = dict(rules)
    if "grace" in stored:
        stored["grace_ms"] = to_ms(stored.pop("grace"), "grace")
    return stored


def _call_fields(name: str, call: Any) -> dict[str, Any]:
    """Return what a plan has of a call. Ids, times and conflicts are the schedule's own affair."""
    if not isinstance(call, Call):
        raise ConfigError(f"schedule {name!r}: {call!r}: give a call, such as task.args(...)")
    job = call.job
    if not job.fresh or job.run_at_ms is not None or job.delay_ms is not None or job.dedup is not None:
        raise ConfigError(f"schedule {name!r}: job_id, delay, run_at and dedup are the schedule's own: leave them out")
    if call.prepared.conflict != KEEP or call.connection is not None:
        raise ConfigError(f"schedule {name!r}: use overlap= in place of on_conflict, and no connection")
    return {
        "task": job.task, "payload": job.payload, "priority": job.priority, "key": job.key,
        "headers": job.headers or {}, "overrides": job.overrides, "result_ttl_ms": job.result_ttl_ms,
    }  # fmt: skip


CALL_FIELDS = ("task", "payload", "priority", "key", "headers", "overrides", "result_ttl_ms")


def _changes(found: Schedule, spec: Spec | None, call: Call[Any] | None, rules: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that a change sets, checked together with those that stay."""
    if call is not None and call.queue != found.queue:
        raise ConfigError(
            f"schedule {found.name!r} is in queue {found.queue!r}, and the call for {call.queue!r}: add another"
        )
    given: dict[str, Any] = {**_rule_fields(rules), **(_call_fields(found.name, call) if call is not None else {})}
    if spec is not None:
        given["spec"] = spec
    return core.fields(msgspec.structs.replace(found.plan, **given), given)


def _stored_names(clear: Iterable[str]) -> list[str]:
    """Return the fields of a plan that are meant by the names of `change`."""
    names = list(clear)
    if unknown := [name for name in names if name not in CHANGEABLE]:
        raise ConfigError(f"{unknown[0]!r} is nothing that a schedule has; known are {', '.join(CHANGEABLE)}")
    stored = {"grace": ("grace_ms",), "call": CALL_FIELDS}
    return [field for name in names for field in stored.get(name, (name,))]


def _declaring(queue: str, name: str, plan: Plan, version: int) -> Decide:
    return lambda found, now_ms: core.declare(found or Schedule(queue=queue, name=name), plan, version, now_ms)


def _change(schedule: Schedule, expected: str | None) -> ScheduleChange:
    return ScheduleChange(
        queue=schedule.queue, name=schedule.name, expected=expected, revision=schedule.revision,
        next_at_ms=schedule.next_at_ms, body=core.body(schedule),
    )  # fmt: skip


def _read(row: ScheduleRow) -> Schedule:
    return core.read(row.queue, row.name, row.revision, row.next_at_ms, row.body)


def _readable(row: ScheduleRow) -> Schedule | ConfigError:
    try:
        return _read(row)
    except ConfigError as error:
        return error


def _coming(schedule: Schedule) -> Schedule:
    """Return a schedule that has a tick to come, or raise: one that never fires again is a slip."""
    if schedule.next_at_ms is None and not schedule.paused:
        raise ConfigError(f"schedule {schedule.name!r}: {schedule.spec} has passed; to run it now, enqueue the call")
    return schedule


def _contended(queue: str, name: str) -> StoreBusy:
    return StoreBusy(f"schedule {name!r} of queue {queue!r} was changed by others over and over; try again")
