"""Keys as operators see them, from what a store keeps of each: its jobs, its limit and its bucket."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..core.limit import Bucket, QueueSettings, refill
from .contract import KeyInfo, KeyOrder


class Lane(NamedTuple):
    """What a store keeps of one key."""

    key: str
    waiting: int
    active: int
    own_limit: int | None
    ready_at_ms: int | None
    cooling: bool
    tokens: float | None
    tokens_at_ms: int | None
    oldest_waiting_ms: int | None


def key_info(lane: Lane, settings: QueueSettings, now: int) -> KeyInfo:
    """Return a key as operators see it."""
    own = lane.own_limit if lane.own_limit is not None else settings.key_limits.get(lane.key)
    return KeyInfo(
        key=lane.key,
        waiting=lane.waiting,
        active=lane.active,
        limit=own if own is not None else settings.key_concurrency,
        own_limit=own is not None,
        tokens=_tokens(lane, settings, now),
        ready_at_ms=None if lane.cooling else lane.ready_at_ms,
        oldest_waiting_ms=lane.oldest_waiting_ms,
    )


def _tokens(lane: Lane, settings: QueueSettings, now: int) -> float | None:
    if settings.key_rate is None:
        return None
    known = lane.tokens is not None and lane.tokens_at_ms is not None
    return refill(settings.key_rate, Bucket(lane.tokens or 0.0, lane.tokens_at_ms or 0) if known else None, now).tokens


def ranked(lanes: Iterable[Lane], order: KeyOrder, limit: int) -> list[Lane]:
    """Return the lanes that come first in an order; names decide among equals."""
    if order == "busiest":
        return sorted(lanes, key=lambda lane: (-lane.active, -lane.waiting, lane.key))[:limit]
    if order == "starved":
        waiting = [lane for lane in lanes if lane.oldest_waiting_ms is not None]
        return sorted(waiting, key=lambda lane: (lane.oldest_waiting_ms or 0, lane.key))[:limit]
    return sorted(lanes, key=lambda lane: lane.key)[:limit]


def at_limit(active: Mapping[str, int], own: Mapping[str, int], settings: QueueSettings) -> int:
    """Return how many keys run as many jobs as they may; `own` are the limits that operators gave to keys."""
    found = 0
    for key, count in active.items():
        limit = own.get(key, settings.key_limits.get(key, settings.key_concurrency))
        found += limit is not None and count >= limit
    return found
