"""What a caller may say of one job."""

from __future__ import annotations

from collections.abc import Iterable
from types import NoneType
from typing import Any, Literal, Protocol

import msgspec

from .core.chain import BlockerRef, OnBlockerFailed
from .core.duration import Duration, Instant, instant_ms, to_ms
from .core.job import run_number
from .core.limit import check_priority
from .core.policy import Overrides, Retry
from .errors import ConfigError
from .store.contract import KEEP, Conflict, DedupSpec, NewJob, OnConflict, OnFailed

MOST_ID_BYTES = 1024
MOST_HEADERS = 16 * 1024


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


class Run(Protocol):
    """Whatever names a run of a job: a handle, a record, a reference."""

    @property
    def queue(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def run(self) -> int: ...


Waitable = Run | tuple[str, str] | tuple[str, str, int]
"""A job or chain that another waits for; with no run, the one that answers for the id."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that can be said of one job; `None` leaves it to the task, the queue and the app."""

    job_id: str | None = None
    delay: Duration | None = None
    run_at: Instant | None = None
    priority: int | None = None
    key: str | None = None
    on_conflict: OnConflict = "keep"
    on_failed: OnFailed = "keep"
    update_payload: bool = True
    update_run_at: bool | Literal["if_later", "if_earlier"] = True
    reset_counts: bool | None = None
    dedup: Dedup | None = None
    retry: Retry | None = None
    timeout: Duration | None = None
    result_ttl: Duration | None = None
    headers: dict[str, str] | None = None
    connection: Any = None
    """The caller's own database connection: the job is there once its transaction commits."""
    blockers: tuple[Waitable, ...] = ()
    """Jobs or chains that must be over before this one may run."""
    on_blocker_failed: OnBlockerFailed = "fail"

    def with_(self, **changes: Any) -> Options:
        """Return these options with some of them changed."""
        unknown = [name for name in changes if name not in self.__struct_fields__]
        if unknown:
            raise ConfigError(f"{unknown[0]!r} is not an option; known are {', '.join(self.__struct_fields__)}")
        for name in changes:
            if changes[name] is None:
                changes[name] = getattr(_DEFAULTS, name)  # `None` leaves it to task, queue and app
        if changes.get("blockers") is not None:
            changes["blockers"] = _all_given(changes["blockers"])
        options = msgspec.structs.replace(self, **changes)
        options.prepared()
        return options

    def prepared(self) -> Prepared:
        """Return the options in the form in which stores take them, or say what is wrong with one."""
        if self.delay is not None and self.run_at is not None:
            raise ConfigError("delay= and run_at= exclude each other: give one")
        if self.job_id is not None:
            check_text(self.job_id, "job_id", "an id")
        if self.priority is not None:
            check_priority(self.priority)
        if self.key is not None:
            check_text(self.key, "key", "a concurrency key")
        if self.timeout is not None and to_ms(self.timeout, "timeout") == 0:
            raise ConfigError("timeout=0 leaves no time to run; leave it out for the task's own")
        if self.headers is not None:
            _check_headers(self.headers)
        overrides = Overrides(
            retry=_retry(self.retry),
            timeout_ms=None if self.timeout is None else to_ms(self.timeout, "timeout"),
        )
        return Prepared(
            conflict=self._conflict(),
            delay_ms=None if self.delay is None else to_ms(self.delay, "delay"),
            run_at_ms=None if self.run_at is None else instant_ms(self.run_at),
            overrides=overrides if overrides else None,
            result_ttl_ms=None if self.result_ttl is None else to_ms(self.result_ttl, "result_ttl"),
            dedup=_dedup(self.dedup),
            blockers=self._blockers(),
        )

    def _blockers(self) -> tuple[BlockerRef, ...]:
        if self.on_blocker_failed not in ("fail", "cancel", "ignore"):
            raise ConfigError(f'on_blocker_failed={self.on_blocker_failed!r}: "fail", "cancel" or "ignore"')
        if self.blockers and self.on_conflict == "update":
            raise ConfigError('blockers= and on_conflict="update" exclude each other: a job keeps what it waits for')
        return tuple(_blocker(each) for each in self.blockers)

    def _conflict(self) -> Conflict:
        if self.on_conflict not in ("keep", "update"):
            raise ConfigError(f'on_conflict={self.on_conflict!r}: "keep" or "update"')
        if self.on_failed not in ("keep", "requeue"):
            raise ConfigError(f'on_failed={self.on_failed!r}: "keep" or "requeue"')
        if type(self.update_payload) is not bool:
            raise ConfigError(f"update_payload={self.update_payload!r}: True or False")
        if self.reset_counts is not None and type(self.reset_counts) is not bool:
            raise ConfigError(
                f"reset_counts={self.reset_counts!r}: True, False, or None for the same as update_payload"
            )
        if self.update_run_at not in (True, False, "if_later", "if_earlier"):
            raise ConfigError(f'update_run_at={self.update_run_at!r}: True, False, "if_later" or "if_earlier"')
        conflict = Conflict(
            on_conflict=self.on_conflict,
            on_failed=self.on_failed,
            update_payload=self.update_payload,
            update_run_at=_RUN_AT[self.update_run_at],
            reset_counts=self.reset_counts,
        )
        return KEEP if conflict == KEEP else conflict


_DEFAULTS = Options()
_RUN_AT: dict[Any, Any] = {True: "always", False: "never", "if_later": "if_later", "if_earlier": "if_earlier"}


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """Options as stores take them."""

    conflict: Conflict
    delay_ms: int | None
    run_at_ms: int | None
    overrides: Overrides | None
    result_ttl_ms: int | None
    dedup: DedupSpec | None
    blockers: tuple[BlockerRef, ...] = ()


def _all_given(given: Any) -> tuple[Waitable, ...]:
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


def refuse_to_wait(options: Options) -> None:
    """Raise when the result of a job is to be waited for that is not there before the caller commits."""
    if options.connection is not None:
        raise ConfigError(
            "connection=: a call would wait for a job that is not there before your commit; enqueue it with the "
            "connection, commit, and then await handle.result()"
        )


def check_text(text: str, name: str, what: str, after: str = "") -> str:
    """Return a text by which the store finds jobs, or raise when it cannot be one."""
    if not isinstance(text, str) or not text:
        raise ConfigError(f"{name}={text!r}{after}: {what} is a string of at least one character")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise ConfigError(f"{name}={text!r}{after}: it holds half a surrogate pair, which is no text") from None
    if "\0" in text:
        raise ConfigError(f"{name}={text!r}{after}: it holds a NUL character, which not every store can keep")
    if size > MOST_ID_BYTES:
        raise ConfigError(f"{name}{after}: {what} is at most {MOST_ID_BYTES} bytes, and this one has {size}")
    return text


def _check_headers(headers: Any) -> None:
    if isinstance(headers, dict) and any(str(name).startswith("holdfast-") for name in headers):
        raise ConfigError(f"headers={headers!r}: names that begin with holdfast- are Holdfast's own")
    try:
        msgspec.convert(headers, dict[str, str])
        encoded = msgspec.json.encode(headers)
    except (msgspec.ValidationError, TypeError):
        raise ConfigError(f"headers={headers!r}: a dict of strings") from None
    except UnicodeEncodeError:
        raise ConfigError(f"headers={headers!r}: one holds half a surrogate pair, which is no text") from None
    if len(encoded) > MOST_HEADERS:
        raise ConfigError(
            f"headers: {len(encoded)} bytes as JSON, and at most {MOST_HEADERS} are carried with a job: "
            "pass what is large in the payload"
        )
    if any("\0" in name + value for name, value in headers.items()):
        raise ConfigError(f"headers={headers!r}: one holds a NUL character, which not every store can keep")


def _dedup(dedup: Any) -> DedupSpec | None:
    if dedup is not None and not isinstance(dedup, Dedup):
        raise ConfigError(f"dedup={dedup!r}: give Dedup(key)")
    return dedup.spec() if dedup is not None else None


def _retry(retry: Any) -> Retry | None:
    if retry is not None and not isinstance(retry, Retry):
        raise ConfigError(f"retry={retry!r}: give Retry(failures=...)")
    return retry
