"""What a schedule is to do, from what its caller says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias, TypedDict, Unpack

import msgspec

from ..app.bulk import Call
from ..core import schedule as core
from ..core.bound import MOST_NAME_BYTES
from ..core.duration import Duration, to_ms
from ..core.envelope import opened
from ..core.schedule import CatchUp, Overlap, Plan, Schedule
from ..core.tick import At, Cron, Every, Spec
from ..core.word import check_text
from ..errors import ConfigError
from ..store.contract import KEEP

Fields: TypeAlias = dict[str, Any]
"""Fields of a `Plan`, by name."""


class ScheduleRules(TypedDict, total=False):
    """How a schedule treats ticks that it missed, and jobs that overlap."""

    catch_up: CatchUp
    limit: int
    grace: Duration
    overlap: Overlap


CHANGEABLE = ("spec", "call", "catch_up", "limit", "grace", "overlap")
CALL_FIELDS = ("task", "payload", "priority", "key", "envelope", "overrides", "result_ttl_ms")


def plan_of(name: str, spec: Spec, call: Call[object], **rules: Unpack[ScheduleRules]) -> Plan:
    """Return what a schedule is to do, or say what is wrong with it."""
    check_text(name, "schedule", "a name")
    if len(name.encode()) > MOST_NAME_BYTES:
        raise ConfigError(f"schedule {name!r}: a name is at most {MOST_NAME_BYTES} bytes")
    return Plan(spec=_spec(name, spec), **_call_fields(name, call), **_rule_fields(rules))


def _spec(name: str, spec: object) -> Spec:
    if not isinstance(spec, Cron | Every | At):
        raise ConfigError(f"schedule {name!r}: {spec!r}: give Cron(text), Every(seconds) or At(when)")
    return spec


def _rule_fields(rules: ScheduleRules) -> Fields:
    stored: Fields = {name: value for name, value in rules.items() if name != "grace"}
    return {**stored, "grace_ms": to_ms(rules["grace"], "grace")} if "grace" in rules else stored


def _call_fields(name: str, call: object) -> Fields:
    """Return what a plan has of a call. Ids, times and conflicts are the schedule's own affair."""
    if not isinstance(call, Call):
        raise ConfigError(f"schedule {name!r}: {call!r}: give a call, such as task.args(...)")
    job = call.job
    if not job.fresh or job.run_at_ms is not None or job.delay_ms is not None or job.dedup is not None:
        raise ConfigError(f"schedule {name!r}: job_id, delay, run_at and dedup are the schedule's own: leave them out")
    if call.options.conflict != KEEP or call.options.connection is not None:
        raise ConfigError(f"schedule {name!r}: use overlap= in place of on_conflict, and no connection")
    if job.blockers:
        raise ConfigError(
            f"schedule {name!r}: blockers are for one job, and each tick enqueues another: leave them out"
        )
    return {
        "task": job.task, "payload": job.payload, "priority": job.priority, "key": job.key,
        "envelope": opened(job.envelope), "overrides": job.overrides, "result_ttl_ms": job.result_ttl_ms,
    }  # fmt: skip


def changed_fields(found: Schedule, spec: Spec | None, call: Call[object] | None, rules: ScheduleRules) -> Fields:
    """Return the fields that a change sets, checked together with those that stay."""
    if call is not None and call.queue != found.queue:
        raise ConfigError(
            f"schedule {found.name!r} is in queue {found.queue!r}, and the call for {call.queue!r}: add another"
        )
    given: Fields = {**_rule_fields(rules), **(_call_fields(found.name, call) if call is not None else {})}
    if spec is not None:
        given["spec"] = _spec(found.name, spec)
    return core.fields(msgspec.structs.replace(found.plan, **given), given)


def stored_names(clear: Iterable[str]) -> list[str]:
    """Return the fields of a plan that are meant by the names of `change`."""
    names = list(clear)
    if unknown := [name for name in names if name not in CHANGEABLE]:
        raise ConfigError(f"{unknown[0]!r} is nothing that a schedule has; known are {', '.join(CHANGEABLE)}")
    stored = {"grace": ("grace_ms",), "call": CALL_FIELDS}
    return [field for name in names for field in stored.get(name, (name,))]
