"""The live settings of a queue, and the token bucket."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from ..errors import ConfigError
from .bound import FAILED_KEPT_MS, FOR_EVER_MS, HIGHEST_PRIORITY, LOWEST_PRIORITY, MOST_COUNT, RESULT_TTL_MS
from .state import State


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -1e12 < value < 1e12


def check_count(value: object, name: str, most: int = MOST_COUNT) -> int:
    """Return a number of things, or raise when it cannot be one."""
    if type(value) is not int or not 1 <= value <= most:
        raise ConfigError(f"{name}={value!r}: a whole number from 1 to {most}")
    return value


class Rate(msgspec.Struct, frozen=True, kw_only=False):
    """`count` starts per `per` seconds, up to `burst` at once (default: `count`)."""

    count: float
    per: float = 1.0
    burst: int | None = None

    def __post_init__(self) -> None:
        if not (_is_number(self.count) and _is_number(self.per) and self.count > 0 and self.per > 0):
            raise ConfigError(f"Rate({self.count!r}, per={self.per!r}): both are numbers above 0, and below 1e12")
        if self.burst is not None and (type(self.burst) is not int or not 1 <= self.burst <= MOST_COUNT):
            raise ConfigError(f"Rate(burst={self.burst!r}): a burst is a whole number from 1 to {MOST_COUNT}")

    @property
    def capacity(self) -> float:
        """The most tokens that the bucket holds."""
        return float(self.burst) if self.burst is not None else max(1.0, self.count)

    @property
    def per_ms(self) -> float:
        """Tokens that come back each millisecond."""
        return self.count / (self.per * 1000)


class Bucket(msgspec.Struct, frozen=True):
    """A token bucket as it stood at an instant."""

    tokens: float
    at_ms: int


def refill(rate: Rate, bucket: Bucket | None, now_ms: int) -> Bucket:
    """Return the bucket as it stands now. A clock that went back takes no token away."""
    if bucket is None:
        return Bucket(rate.capacity, now_ms)
    gained = max(0, now_ms - bucket.at_ms) * rate.per_ms
    return Bucket(min(rate.capacity, bucket.tokens + gained), now_ms)


def next_token_ms(rate: Rate, bucket: Bucket) -> int:
    """Return the instant at which the bucket holds a whole token."""
    if bucket.tokens >= 1:
        return bucket.at_ms
    return bucket.at_ms + math.ceil((1 - bucket.tokens) / rate.per_ms)


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """How long, in seconds, and how many finished runs a queue keeps.

    `completed=None` means their result TTL; `failed=None`, that dead letters stay until they are deleted;
    `failed_count=None`, that their number does not matter.
    """

    completed: float | None = None
    failed: float | None = FAILED_KEPT_MS / 1000
    failed_count: int | None = None

    def __post_init__(self) -> None:
        for name in ("completed", "failed"):
            value = getattr(self, name)
            if value is not None and not (_is_number(value) and 0 <= value < 1e12):
                raise ConfigError(f"Retention({name}={value!r}): seconds, from 0 on")
        if self.failed_count is not None and (
            type(self.failed_count) is not int or not 0 <= self.failed_count <= MOST_COUNT
        ):
            raise ConfigError(
                f"Retention(failed_count={self.failed_count!r}): a whole number from 0 on, or None for all of them"
            )

    def kept_ms(self, state: State) -> int:
        """Return for how many milliseconds a run that ended so is kept; 0 where only its result TTL counts."""
        if state is State.FAILED:
            return FOR_EVER_MS if self.failed is None else round(self.failed * 1000)
        return round((self.completed or 0) * 1000) if state is State.COMPLETED else 0


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for a queue: limits at claim time, and how long finished runs stay."""

    paused: bool = False
    priority: int = 0
    concurrency: int | None = None
    key_concurrency: int | None = None
    rate: Rate | None = None
    key_rate: Rate | None = None
    result_ttl_ms: int = RESULT_TTL_MS
    retention: Retention = Retention()
    history: Literal["events", "payloads"] = "events"
    key_limits: dict[str, int] = {}
    """Keys with a concurrency of their own, as code declares them; what an operator says of a key is above it."""
    key_required: bool = False
    """Producers that know of it give every job a key."""

    def __post_init__(self) -> None:
        for key, limit in self.key_limits.items():
            if type(limit) is not int or not 1 <= limit <= MOST_COUNT:
                raise ConfigError(f"key_limits: {key!r}: {limit!r}: a whole number from 1 to {MOST_COUNT}")
        for name in ("concurrency", "key_concurrency"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or not 1 <= value <= MOST_COUNT):
                raise ConfigError(f"{name}={value!r}: a whole number from 1 to {MOST_COUNT}, or None for no limit")
        check_priority(self.priority)

    @property
    def limited(self) -> bool:
        """True when a claim has more to look at than the order of the jobs."""
        return self.concurrency is not None or self.rate is not None


LIVE_SETTINGS = tuple(name for name in QueueSettings.__struct_fields__ if name not in ("key_limits", "key_required"))
"""What an operator may set of a queue. The others are code's alone: a key's own limit is set live by `limit_key`."""


def check_priority(priority: int) -> int:
    """Return the priority, or raise when it is out of range."""
    if type(priority) is not int or not LOWEST_PRIORITY <= priority <= HIGHEST_PRIORITY:
        raise ConfigError(
            f"priority={priority!r}: a whole number from {LOWEST_PRIORITY} to {HIGHEST_PRIORITY}, higher first"
        )
    return priority
