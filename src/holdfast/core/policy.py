"""What limits a job's attempts, and when the next one comes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

import msgspec

from ..errors import ConfigError
from .bound import (
    BACKOFF_FACTOR,
    FIRST_BACKOFF,
    LONGEST_BACKOFF,
    MOST_COUNT,
    MOST_DOUBLED,
    MOST_FAILURES,
    MOST_RELEASES,
    MOST_STALLS,
    MOST_TIMEOUTS,
)

if TYPE_CHECKING:
    Kinds = Iterable[type[BaseException] | str]
else:
    Kinds = tuple[str, ...]  # as it is kept: classes do not leave a process, their names do


class Cause(StrEnum):
    """Why an attempt, or a job, ended as it did."""

    FAILURE = "failure"
    TIMEOUT = "timeout"
    STALL = "stall"
    RELEASE = "release"
    PERMANENT = "permanent"
    CORRUPT = "corrupt"
    CANCELLED = "cancelled"
    BLOCKER = "blocker"
    ATTEMPTS = "attempts"
    """It was tried as often as it may be, whatever ended each attempt."""
    SNOOZE = "snooze"
    WORKER = "worker"
    """The worker's own trouble, which costs the job nothing."""


COUNTER = {
    Cause.FAILURE: "failures",
    Cause.TIMEOUT: "timeouts",
    Cause.STALL: "stalls",
    Cause.RELEASE: "releases",
}
"""The counter that each cause eats. A permanent failure eats `failures` and ends at once; the worker's trouble none."""

LIMITS = {**COUNTER, Cause.SNOOZE: "snoozes", Cause.ATTEMPTS: "attempts"}
"""The option of `Retry` that limits each cause."""


class Counters(msgspec.Struct, frozen=True, kw_only=True):
    """How often a run was started, and how often it came back, by cause."""

    attempts: int = 0
    failures: int = 0
    stalls: int = 0
    timeouts: int = 0
    releases: int = 0


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """How often a job may come back, and how long it waits each time.

    A limit of N means that the Nth is final; `None` is unlimited. `attempts` caps them all together: whatever ended an
    attempt counts, but what its worker or its store suffered. Times are in seconds:
    the nth wait is `min(initial * multiplier**(n-1), maximum)`, plus or minus `jitter` of itself. Exceptions of a
    `permanent` class, or of one below it, fail the job at once; a class may be given by the name that errors have.
    """

    failures: int | None = MOST_FAILURES
    stalls: int | None = MOST_STALLS
    timeouts: int | None = MOST_TIMEOUTS
    releases: int | None = MOST_RELEASES
    attempts: int | None = None
    snoozes: int | None = None
    initial: float = float(FIRST_BACKOFF)
    multiplier: float = float(BACKOFF_FACTOR)
    maximum: float = float(LONGEST_BACKOFF)
    jitter: float = 0.0
    permanent: Kinds = ()

    def __post_init__(self) -> None:
        for name in LIMITS.values():
            limit = getattr(self, name)
            if limit is not None and (type(limit) is not int or not 1 <= limit <= MOST_COUNT):
                raise ConfigError(f"Retry({name}={limit!r}): a limit is a whole number from 1 to {MOST_COUNT}, or None")
        for name in ("initial", "multiplier", "maximum", "jitter"):
            if isinstance(getattr(self, name), bool) or not isinstance(getattr(self, name), int | float):
                raise ConfigError(f"Retry({name}={getattr(self, name)!r}): a number")
        times = (self.initial, self.maximum, self.multiplier)
        if not all(0 <= each < 1e12 for each in times) or self.multiplier < 1:
            raise ConfigError("Retry: initial and maximum are at least 0, and multiplier at least 1")
        if not 0 <= self.jitter <= 1:
            raise ConfigError(f"Retry(jitter={self.jitter!r}): jitter is a share from 0 to 1")
        if self.permanent != ():
            msgspec.structs.force_setattr(self, "permanent", _names(self.permanent))

    def is_permanent(self, kinds: Iterable[str]) -> bool:
        """Return whether one of an exception's classes, by name, is declared to be permanent."""
        return bool(self.permanent) and not set(self.permanent).isdisjoint(kinds)

    def limit(self, cause: Cause) -> int | None:
        """Return how many of this cause are final, `None` for no limit."""
        value: int | None = getattr(self, LIMITS[cause])
        return value

    def backoff_ms(self, nth: int, spread: float = 0.0) -> int:
        """Return the wait before the next attempt, after the nth failure or timeout.

        `spread` is a random number from -1 to 1, which `jitter` scales.
        """
        exponent = min(nth - 1, MOST_DOUBLED)
        try:
            seconds = min(self.initial * self.multiplier**exponent, self.maximum)
        except OverflowError:
            seconds = self.maximum
        return round(seconds * (1 + self.jitter * spread) * 1000)


def _names(kinds: object) -> tuple[str, ...]:
    given = [kinds] if isinstance(kinds, str | type) else kinds
    if not isinstance(given, list | tuple | set | frozenset):
        raise ConfigError(f"Retry(permanent={kinds!r}): a tuple of exception classes, or of their names")
    return tuple(_named(kind) for kind in given)


def _named(kind: object) -> str:
    if isinstance(kind, type) and issubclass(kind, BaseException):
        return class_name(kind)
    if isinstance(kind, str) and kind and kind.isprintable():
        return kind
    raise ConfigError(f"Retry(permanent={kind!r}): an exception class, or the name of one, such as 'httpx.InvalidURL'")


def class_name(kind: type[BaseException]) -> str:
    """Return what a stored error calls its type: its module and name; of Python's own, and of ours, the name alone."""
    module = str(kind.__module__)
    plain = module == "builtins" or module.partition(".")[0] == "holdfast"
    return kind.__qualname__ if plain else f"{module}.{kind.__qualname__}"


FAIL_HANDLER_RETRY = Retry(failures=100, initial=10.0, maximum=900.0)
"""How a fail handler is retried unless it says otherwise."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker declares of a task: every node can retry, reap or fail its jobs by it."""

    retry: Retry = Retry()
    timeout_ms: int | None = None
    size: int = 1
    on_failure: tuple[str, str] | None = None
    """The queue and name of the fail handler."""
    on_failure_priority: int | None = None
    """The priority of its jobs, where it has one of its own; else they have that of the job that failed."""


def adjusted(policy: Policy, operator: Mapping[str, object]) -> Policy:
    """Return a policy with an operator's settings above it: the fields of `Retry`, and `timeout_ms`."""
    unknown = [name for name in operator if name not in ADJUSTABLE]
    if unknown:
        raise ConfigError(f"{unknown[0]!r} is not a setting of a task; known are {', '.join(ADJUSTABLE)}")
    retry = {name: value for name, value in operator.items() if name != "timeout_ms"}
    try:
        wanted = msgspec.convert({**msgspec.structs.asdict(policy.retry), **retry}, Retry)
        timeout = msgspec.convert(operator.get("timeout_ms", policy.timeout_ms), int | None)
    except msgspec.ValidationError as error:
        raise ConfigError(f"task setting: {error}") from None
    if timeout is not None and timeout < 1:
        raise ConfigError("timeout=0 leaves no time to run; None is no time-out")
    return msgspec.structs.replace(policy, retry=wanted, timeout_ms=timeout)


ADJUSTABLE = (*(name for name in Retry.__struct_fields__ if name != "permanent"), "timeout_ms")
"""What an operator may set of a task, above what its workers declare. Exceptions are code, and the worker's alone."""


class Overrides(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a job's caller set for this job alone; unset fields follow the policy."""

    retry: Retry | None = None
    timeout_ms: int | None = None

    def __bool__(self) -> bool:
        return self.retry is not None or self.timeout_ms is not None


def effective(policy: Policy, overrides: Overrides | None) -> Policy:
    """Return the policy that holds for one job."""
    if not overrides:
        return policy
    return msgspec.structs.replace(
        policy,
        retry=overrides.retry or policy.retry,
        timeout_ms=policy.timeout_ms if overrides.timeout_ms is None else overrides.timeout_ms,
    )


def verdict(retry: Retry, cause: Cause, counted: int) -> Literal["return", "fail"]:
    """Say whether a run whose counter has just become `counted` comes back or fails for good."""
    if cause not in LIMITS:
        return "fail"
    limit = retry.limit(cause)
    return "fail" if limit is not None and counted >= limit else "return"


def spent(retry: Retry, counters: Counters, *, suspect: bool = False, snoozes: int = 0, tried: int = 0) -> Cause | None:
    """Return the cause whose limit a waiting run has already reached, after the limit was lowered.

    `tried` is how many of its attempts count. A suspect is tried again whatever its stalls: it may have suffered them
    in company.
    """
    used = {cause: getattr(counters, name) for cause, name in COUNTER.items()}
    used |= {Cause.SNOOZE: snoozes, Cause.ATTEMPTS: tried}
    for cause, count in used.items():
        limit = retry.limit(cause)
        if limit is not None and count >= limit and not (suspect and cause is Cause.STALL):
            return cause
    return None


def is_last(retry: Retry, counters: Counters, tried: int) -> bool:
    """Return whether a failure of the attempt that runs would be final; `tried` is how many of its attempts count."""
    verdicts = (verdict(retry, Cause.FAILURE, counters.failures + 1), verdict(retry, Cause.ATTEMPTS, tried))
    return "fail" in verdicts


def too_many(cause: Cause, counted: int | str) -> tuple[str, str]:
    """Return the type and the message of the error of a run that reached the limit of a cause, and has no other."""
    name = LIMITS[cause]
    return f"TooMany{name.capitalize()}", f"{counted} {name}, and no more are allowed"
