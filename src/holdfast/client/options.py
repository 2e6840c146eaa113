"""What a caller may say of one job, and the id of one of which nothing is said."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterable, Sequence, Set
from types import NoneType
from typing import Literal, NoReturn, Protocol, TypedDict, cast, get_args

import msgspec

from ..core.chain import BlockerRef, OnBlockerFailed
from ..core.duration import Duration, Instant, instant_ms, to_ms, ttl_ms
from ..core.envelope import Envelope, check_headers, check_tags
from ..core.job import run_number
from ..core.limit import check_priority
from ..core.policy import Overrides, Retry
from ..core.word import check_text
from ..errors import ConfigError
from ..store.contract import KEEP, Conflict, DedupSpec, NewJob, OnConflict, OnFailed, UpdateRunAt

_prefix = os.urandom(6).hex()
_numbers = itertools.count()


def _new_prefix() -> None:
    global _prefix
    _prefix = os.urandom(6).hex()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_prefix)


def new_id() -> str:
    """Return an id that exists once. Later ones sort later, which keeps indexes small and quick."""
    return f"{time.time_ns() // 1_000_000 << 32 | next(_numbers) & 0xFFFFFFFF:020x}{_prefix}"


class Dedup(msgspec.Struct, frozen=True):
    """At most one job with this key, per queue and task, whatever its id.

    scope: "incomplete" looks at unfinished jobs, "any" at finished ones too, as long as they are kept.
    window: only jobs enqueued within so many seconds count.
    exclude: ids that do not count.
    """

    key: str
    scope: Literal["incomplete", "any"] = "incomplete"
    window: Duration | None = None
    exclude: tuple[str, ...] = ()

    def spec(self) -> DedupSpec:
        """Return it as stores take it."""
        if self.scope not in ("incomplete", "any"):
            raise ConfigError(f'Dedup(scope={self.scope!r}): "incomplete" or "any"')
        check_text(self.key, "Dedup(key", "a key", after=")")
        window_ms = None if self.window is None else to_ms(self.window, "Dedup: window")
        if isinstance(self.exclude, str | bytes) or not isinstance(self.exclude, Iterable):
            raise ConfigError(f"Dedup(exclude={self.exclude!r}): a list of ids")
        exclude = tuple(check_text(id, "Dedup(exclude", "an id", after=")") for id in self.exclude)
        return DedupSpec(key=self.key, scope=self.scope, window_ms=window_ms, exclude=exclude)


class RunLike(Protocol):
    """Whatever names a run of a job: a handle, a record, a reference."""

    @property
    def queue(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def run(self) -> int: ...


Waitable = RunLike | tuple[str, str] | tuple[str, str, int]
"""A job or chain that another waits for; with no run, the one that answers for the id."""


class JobOptions(TypedDict, total=False):
    """Everything that can be said of one job; `None`, or nothing, leaves it to the task, the queue and the app."""

    job_id: str | None
    delay: Duration | None
    run_at: Instant | None
    priority: int | None
    key: str | None
    on_conflict: OnConflict | None
    on_failed: OnFailed | None
    update_payload: bool | None
    update_run_at: bool | Literal["if_later", "if_earlier"] | None
    reset_counts: bool | None
    dedup: Dedup | None
    retry: Retry | None
    timeout: Duration | None
    result_ttl: Duration | None
    headers: dict[str, str] | None
    tags: Sequence[str] | Set[str] | None
    """Free words, seen by the handler, in lists, in events and in Spark."""
    connection: object
    """The caller's own database connection: the job is there once its transaction commits."""
    blockers: Iterable[Waitable] | None
    """Jobs or chains that must be over before this one may run."""
    on_blocker_failed: OnBlockerFailed | None


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a job, checked, in the form in which stores take them; and as they were given."""

    given: JobOptions
    job_id: str | None = None
    priority: int | None = None
    key: str | None = None
    connection: object = None
    conflict: Conflict = KEEP
    delay_ms: int | None = None
    run_at_ms: int | None = None
    overrides: Overrides | None = None
    result_ttl_ms: int | None = None
    dedup: DedupSpec | None = None
    blockers: tuple[BlockerRef, ...] = ()
    on_blocker_failed: OnBlockerFailed = "fail"
    envelope: bytes | None = None

    def above(self, given: JobOptions) -> Prepared:
        """Return these options with those that are given above them; `None` leaves one as it is."""
        return prepared({**self.given, **_said(given)})

    def job(
        self, task: str | None, payload: bytes, priority: int, result_ttl_ms: int | None, watcher: str | None
    ) -> NewJob:
        """Return a job with these options; priority and TTL are what holds where the options say nothing."""
        if not self.given:
            return NewJob(
                id=new_id(), task=task, payload=payload, fresh=True, priority=priority, result_ttl_ms=result_ttl_ms,
                watcher=watcher,
            )  # fmt: skip
        return NewJob(
            id=self.job_id or new_id(),
            task=task,
            payload=payload,
            fresh=self.job_id is None,
            run_at_ms=self.run_at_ms,
            delay_ms=self.delay_ms,
            priority=priority if self.priority is None else self.priority,
            key=self.key,
            envelope=self.envelope,
            overrides=self.overrides,
            result_ttl_ms=result_ttl_ms if self.result_ttl_ms is None else self.result_ttl_ms,
            dedup=self.dedup,
            watcher=watcher,
            blockers=self.blockers,
            on_blocker_failed=self.on_blocker_failed,
        )


def prepared(given: JobOptions) -> Prepared:
    """Return options in the form in which stores take them, or say what is wrong with one."""
    delay, run_at, timeout = given.get("delay"), given.get("run_at"), given.get("timeout")
    job_id, priority, key, ttl = given.get("job_id"), given.get("priority"), given.get("key"), given.get("result_ttl")
    if delay is not None and run_at is not None:
        raise ConfigError("delay= and run_at= exclude each other: give one")
    if job_id is not None:
        check_text(job_id, "job_id", "an id")
    if priority is not None:
        check_priority(priority)
    if key is not None:
        check_text(key, "key", "a concurrency key")
    timeout_ms = None if timeout is None else to_ms(timeout, "timeout")
    if timeout_ms == 0:
        raise ConfigError("timeout=0 leaves no time to run; leave it out for the task's own")
    overrides = Overrides(retry=_retry(given.get("retry")), timeout_ms=timeout_ms)
    return Prepared(
        given=given,
        job_id=job_id,
        priority=priority,
        key=key,
        connection=given.get("connection"),
        conflict=_conflict(given),
        delay_ms=None if delay is None else to_ms(delay, "delay"),
        run_at_ms=None if run_at is None else instant_ms(run_at),
        overrides=overrides if overrides else None,
        result_ttl_ms=None if ttl is None else ttl_ms(ttl, "result_ttl"),
        dedup=_dedup(given.get("dedup")),
        blockers=_blockers(given),
        on_blocker_failed=given.get("on_blocker_failed") or "fail",
        envelope=_envelope(given),
    )


def _said(given: JobOptions) -> JobOptions:
    """Return the options that are given, without those that are `None`; raise for one that is none."""
    for name in given:
        if name not in JobOptions.__annotations__:
            raise ConfigError(f"{name!r} is not an option; known are {', '.join(JobOptions.__annotations__)}")
    said = cast(JobOptions, {name: value for name, value in given.items() if value is not None})
    if "blockers" in said:
        said["blockers"] = _all_given(said["blockers"])
    return said


def _envelope(given: JobOptions) -> bytes | None:
    headers, tags = given.get("headers"), given.get("tags")
    checked = {} if headers is None else check_headers(headers)
    words = () if tags is None else check_tags(tags)
    return Envelope(headers=checked, tags=words).encoded() if checked or words else None


def _blockers(given: JobOptions) -> tuple[BlockerRef, ...]:
    failed, blockers = given.get("on_blocker_failed"), given.get("blockers") or ()
    if failed not in (None, *get_args(OnBlockerFailed)):
        raise ConfigError(f'on_blocker_failed={failed!r}: "fail", "cancel" or "ignore"')
    if blockers and given.get("on_conflict") == "update":
        raise ConfigError('blockers= and on_conflict="update" exclude each other: a job keeps what it waits for')
    return tuple(_blocker(each) for each in blockers)


def _conflict(given: JobOptions) -> Conflict:
    on_conflict, on_failed = given.get("on_conflict"), given.get("on_failed")
    payload, run_at, reset = given.get("update_payload"), given.get("update_run_at"), given.get("reset_counts")
    if on_conflict not in (None, "keep", "update"):
        raise ConfigError(f'on_conflict={on_conflict!r}: "keep" or "update"')
    if on_failed not in (None, "keep", "requeue"):
        raise ConfigError(f'on_failed={on_failed!r}: "keep" or "requeue"')
    if payload is not None and type(payload) is not bool:
        raise ConfigError(f"update_payload={payload!r}: True or False")
    if reset is not None and type(reset) is not bool:
        raise ConfigError(f"reset_counts={reset!r}: True, False, or None for the same as update_payload")
    if run_at not in (None, True, False, "if_later", "if_earlier"):
        raise ConfigError(f'update_run_at={run_at!r}: True, False, "if_later" or "if_earlier"')
    conflict = Conflict(
        on_conflict=on_conflict or "keep",
        on_failed=on_failed or "keep",
        update_payload=payload is not False,
        update_run_at=_update_run_at(run_at),
        reset_counts=reset,
    )
    return KEEP if conflict == KEEP else conflict


def _update_run_at(given: bool | Literal["if_later", "if_earlier"] | None) -> UpdateRunAt:
    if given == "if_later" or given == "if_earlier":
        return given
    return "never" if given is False else "always"


def _all_given(given: object) -> tuple[Waitable, ...]:
    """Return the jobs and chains to wait for, when a list of them was given."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ConfigError(f"blockers={given!r}: a list of handles, jobs or (queue, id) was expected")
    return tuple(given)


def _blocker(given: Waitable) -> BlockerRef:
    """Return a job or chain to wait for as stores take it."""
    if isinstance(given, tuple):
        queue, id, run = (*given, None)[:3] if 2 <= len(given) <= 3 else ("", "", None)
    else:
        queue, id, run = (getattr(given, name, None) for name in ("queue", "id", "run"))
    if not isinstance(queue, str) or not isinstance(id, str) or not queue or not id or type(run) not in (int, NoneType):
        raise ConfigError(f"blockers: {given!r} is neither a handle, nor a job, nor (queue, id) or (queue, id, run)")
    if run is not None and not run_number(run):
        raise ConfigError(f"blockers: {given!r}: no run has this number; take it from a handle or a record")
    check_text(queue, "blockers: queue", "a queue's name")
    check_text(id, "blockers: id", "an id")
    return BlockerRef(queue, id, run)


def refuse_own_blocker(queue: str, job: NewJob) -> NewJob:
    """Return the job, unless it is to wait for itself."""
    if any((ref.queue, ref.id, ref.run) == (queue, job.id, None) for ref in job.blockers):
        raise ConfigError(f"blockers: {queue}/{job.id} cannot wait for itself; name an earlier run of it by its handle")
    return job


def refuse_keyless(whose: str) -> NoReturn:
    """Raise for a job without a key, where every job must have one."""
    raise ConfigError(
        f"{whose}: its jobs must have a key (key_required): give the tenant, user or other key by whose limits the job "
        "runs, with options(key=...)"
    )


def refuse_in_chain(name: str, options: Prepared) -> None:
    """Raise when a continuation is to have what its chain decides."""
    for option in ("job_id", "dedup", "connection"):
        if getattr(options, option) is not None:
            raise ConfigError(f"continue_with({name}): {option}= is not for a job that continues a chain; leave it out")
    if options.conflict.on_conflict != "keep" or options.conflict.on_failed != "keep":
        raise ConfigError(f"continue_with({name}): its id is new, so that on_conflict= and on_failed= have no meaning")


def refuse_to_wait() -> NoReturn:
    """Raise for the call of a job that is not there before the caller commits."""
    raise ConfigError(
        "connection=: a call would wait for a job that is not there before your commit; enqueue it with the "
        "connection, commit, and then await handle.result()"
    )


def refuse_transaction() -> NoReturn:
    """Raise for an enqueue that nobody waits for in a transaction, which may be over before it."""
    raise ConfigError(
        "enqueue_nowait: it cannot be part of a transaction, which may end before the job is in the store; use enqueue"
    )


def _dedup(dedup: object) -> DedupSpec | None:
    if dedup is not None and not isinstance(dedup, Dedup):
        raise ConfigError(f"dedup={dedup!r}: give Dedup(key)")
    return dedup.spec() if dedup is not None else None


def _retry(retry: object) -> Retry | None:
    if retry is not None and not isinstance(retry, Retry):
        raise ConfigError(f"retry={retry!r}: give Retry(failures=...)")
    return retry
