"""A schedule: what it enqueues and when, who said so, and which ticks are due."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Literal

import msgspec
from msgspec.structs import replace

from ..errors import ConfigError
from .declaration import wins
from .duration import to_datetime
from .envelope import EMPTY, Envelope
from .policy import Overrides
from .tick import Spec

CatchUp = Literal["one", "skip", "all"]
Overlap = Literal["allow", "skip", "successor"]
MOST_CAUGHT_UP = 1000


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a schedule does: the job that each tick enqueues, and the rules for ticks that come late or too soon."""

    spec: Spec
    task: str | None
    payload: bytes
    priority: int = 0
    key: str | None = None
    envelope: Envelope = EMPTY
    overrides: Overrides | None = None
    result_ttl_ms: int | None = None
    catch_up: CatchUp = "one"
    """After a time without workers: "one" enqueues the latest tick, "all" every one, "skip" none but a fresh one."""
    limit: int = 100
    """With `catch_up="all"`: at most so many, the latest."""
    grace_ms: int = 60_000
    """With `catch_up="skip"`: for so long is a tick fresh."""
    overlap: Overlap = "allow"
    """While an earlier job is unfinished: "allow" runs both, "skip" drops the new one, "successor" runs it next."""

    def __post_init__(self) -> None:
        _one_of("catch_up", self.catch_up, ("one", "skip", "all"))
        _one_of("overlap", self.overlap, ("allow", "skip", "successor"))
        if type(self.limit) is not int or not 1 <= self.limit <= MOST_CAUGHT_UP:
            raise ConfigError(f"limit={self.limit!r}: a whole number from 1 to {MOST_CAUGHT_UP}")


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as it stands. What people changed lies above what the code declares, until it is cleared."""

    queue: str
    name: str
    revision: str = ""
    declared: Plan | None = None
    """What workers declare; `None` for a schedule that was added live."""
    version: int = 0
    changes: dict[str, object] = {}
    paused: bool = False
    next_at_ms: int | None = None
    last_at_ms: int | None = None
    """The last tick that was dealt with: no tick up to it fires again."""
    fired: int = 0
    """How many jobs its ticks have asked for."""

    @property
    def plan(self) -> Plan:
        """What holds: the changes above the declaration."""
        declared = {} if self.declared is None else fields(self.declared)
        return msgspec.convert({**declared, **self.changes}, Plan)

    @property
    def spec(self) -> Spec:
        """When it is due."""
        return self.plan.spec

    @property
    def task(self) -> str | None:
        """The task of its jobs; `None` for plain payloads."""
        return self.plan.task

    @property
    def next_at(self) -> datetime | None:
        """When it is due next; `None` while it is paused, or when no tick is left."""
        return to_datetime(self.next_at_ms)

    @property
    def last_at(self) -> datetime | None:
        """The last tick that was dealt with."""
        return to_datetime(self.last_at_ms)

    def upcoming(self, count: int = 5) -> list[datetime]:
        """Return its next ticks, unless it is changed."""
        found: list[datetime] = []
        at, spec = self.next_at_ms, self.spec
        while at is not None and len(found) < count:
            found.append(to_datetime(at))  # type: ignore[arg-type]
            at = spec.next_ms(at)
        return found


class _Body(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What stores keep of a schedule without looking into it."""

    declared: Plan | None = None
    version: int = 0
    changes: dict[str, object] = {}
    paused: bool = False
    last_at_ms: int | None = None
    fired: int = 0


_decode = msgspec.msgpack.Decoder(_Body).decode
_encode = msgspec.msgpack.Encoder().encode


def body(schedule: Schedule) -> bytes:
    """Return what a store keeps beside name, revision and next tick."""
    return _encode(_Body(**{name: getattr(schedule, name) for name in _Body.__struct_fields__}))


def read(queue: str, name: str, revision: str, next_at_ms: int | None, stored: bytes) -> Schedule:
    """Return a schedule as it was stored; raise `ConfigError` when this version or machine cannot read it."""
    try:
        found = {each: getattr(_decode(stored), each) for each in _Body.__struct_fields__}
        schedule = Schedule(queue=queue, name=name, revision=revision, next_at_ms=next_at_ms, **found)
        schedule.plan  # noqa: B018 (a change may name what this machine does not know)
    except msgspec.MsgspecError as error:
        raise ConfigError(f"schedule {name!r} of queue {queue!r} cannot be read here: {error}") from None
    return schedule


def fields(plan: Plan, names: Iterable[str] = Plan.__struct_fields__) -> dict[str, object]:
    """Return a plan, or some of it, as plain values."""
    values: dict[str, object] = msgspec.to_builtins(plan, builtin_types=(bytes,))
    return {name: values[name] for name in names}


# --- what becomes of it


def declare(found: Schedule, plan: Plan, version: int, now_ms: int, *, overrules: bool = False) -> Schedule:
    """Return the schedule after a worker's declaration: a higher version wins, another value needs one."""
    if found.declared is not None:
        if version < found.version:
            return found
        if version == found.version and plan != found.declared:
            what = f"schedule {found.name!r} of queue {found.queue!r}"
            wins(what, found.declared, version, plan, version, overrules=overrules)
    if (plan, version) == (found.declared, found.version):
        return found
    return _timed(replace(found, declared=plan, version=version), found, now_ms)


def change(found: Schedule, changes: Mapping[str, object], clear: Iterable[str], now_ms: int) -> Schedule:
    """Return the schedule with fields of its plan set, and others back to what the code declares."""
    cleared = set(clear)
    if cleared and found.declared is None:
        raise ConfigError(f"schedule {found.name!r} is declared by no code, so that there is nothing to go back to")
    kept = {name: value for name, value in {**found.changes, **changes}.items() if name not in cleared}
    return _timed(replace(found, changes=kept), found, now_ms)


def pause(found: Schedule, paused: bool, now_ms: int) -> Schedule:
    """Return the schedule paused or resumed. Ticks of a pause are not caught up."""
    return found if found.paused == paused else _timed(replace(found, paused=paused), found, now_ms)


def _timed(schedule: Schedule, before: Schedule, now_ms: int) -> Schedule:
    """Return the schedule with its next tick: one that has not been dealt with, and not one of the past."""
    known = before.declared is not None or bool(before.changes)
    if known and schedule.spec == before.spec and schedule.paused == before.paused:
        return schedule
    after = max(now_ms, schedule.last_at_ms or 0)
    return replace(schedule, next_at_ms=None if schedule.paused else schedule.spec.next_ms(after))


class Firing(msgspec.Struct, frozen=True):
    """The ticks to enqueue now, and the schedule afterwards; `None` when it has done all it was there for."""

    ticks: list[int]
    after: Schedule | None


def due(schedule: Schedule, now_ms: int) -> Firing:
    """Return what is to be done with the ticks up to now, all of which are dealt with by it."""
    plan, first = schedule.plan, schedule.next_at_ms
    if first is None or first > now_ms:
        return Firing([], schedule)
    most = plan.limit if plan.catch_up == "all" else 1
    ticks = plan.spec.latest_ms(first, now_ms, most) or [first]
    latest = ticks[-1]
    if plan.catch_up == "skip" and latest < now_ms - plan.grace_ms:
        ticks = []
    next_at = plan.spec.next_ms(max(latest, now_ms))
    if next_at is None and schedule.declared is None:
        return Firing(ticks, None)
    after = replace(schedule, next_at_ms=next_at, last_at_ms=latest, fired=schedule.fired + len(ticks))
    return Firing(ticks, after)


def _one_of(name: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ConfigError(f"{name}={value!r}: {', '.join(repr(each) for each in known[:-1])} or {known[-1]!r}")
