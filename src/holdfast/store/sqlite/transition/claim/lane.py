"""Lanes: keys take turns, and a key is ready exactly when it has a job, room and a token."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from .....core.limit import Bucket, QueueSettings, Rate, next_token_ms, refill
from ...tx import Tx
from ..fast.lane import recheck_together

NONE: Mapping[str, int] = MappingProxyType({})


def recheck_all(tx: Tx, queue: str, keys: Iterable[str | None], served: Mapping[str, int] = NONE) -> None:
    """Check the lane of each of these keys again; `served` has the turns that some have just had."""
    named = [key for key in dict.fromkeys(keys) if key is not None]
    if len(named) > 1 and recheck_together(tx, queue, named, served):
        return
    for key in named:
        recheck(tx, queue, key, served=served.get(key, 0))


def recheck(tx: Tx, queue: str, key: str, *, served: int = 0) -> bool:
    """Set the lane as its jobs, its limits and its bucket say; return whether it is ready.

    `served` is the turn that it has just had.
    """
    settings = tx.queue(queue).settings
    waiting = bool(tx.value("lane", "waiting", queue=queue, key=key))
    lane = tx.run("lane", "get", queue=queue, key=key).fetchone()
    bucket = _bucket(tx, settings.key_rate, lane, served > 0)
    if not waiting and not _active(tx, queue, key):
        return _drop_or_cool(tx, queue, key, lane, settings.key_rate, bucket)
    room = _has_room(tx, queue, key, settings)
    ready, ready_at = waiting and room, None
    if ready and settings.key_rate is not None and bucket is not None and bucket.tokens < 1:
        ready, ready_at = False, next_token_ms(settings.key_rate, bucket)
    turn = served or (lane[0] if lane else next_turn(tx, queue))
    _put(tx, queue, key, turn, ready, ready_at, bucket)
    return ready


def starts_at(tx: Tx, queue: str, key: str) -> int | None:
    """Return when a job of the key may start by its limits, if nothing else happens; `None`: when another ends."""
    settings = tx.queue(queue).settings
    if not _has_room(tx, queue, key, settings):
        return None
    lane = tx.run("lane", "get", queue=queue, key=key).fetchone()
    bucket = _bucket(tx, settings.key_rate, lane, take=False)
    return tx.now if settings.key_rate is None or bucket is None else next_token_ms(settings.key_rate, bucket)


def _active(tx: Tx, queue: str, key: str) -> int:
    return int(tx.value("lane", "active", queue=queue, key=key))


def _has_room(tx: Tx, queue: str, key: str, settings: QueueSettings) -> bool:
    own = tx.value("lane", "limit", queue=queue, key=key)
    limit = own if own is not None else settings.key_limits.get(key, settings.key_concurrency)
    return limit is None or _active(tx, queue, key) < limit


def _bucket(
    tx: Tx, rate: Rate | None, lane: tuple[int, int, float | None, int | None] | None, take: bool
) -> Bucket | None:
    """Return the key's bucket as it stands now, less the token that a claim has just taken."""
    if rate is None:
        return None
    stored = Bucket(lane[2], lane[3]) if lane and lane[2] is not None and lane[3] is not None else None
    bucket = refill(rate, stored, tx.now)
    return Bucket(bucket.tokens - 1, bucket.at_ms) if take else bucket


def _drop_or_cool(
    tx: Tx,
    queue: str,
    key: str,
    lane: tuple[int, int, float | None, int | None] | None,
    rate: Rate | None,
    bucket: Bucket | None,
) -> bool:
    """Remove the lane of a key with no job, or keep it until its bucket is full again."""
    if rate is None or bucket is None or bucket.tokens >= rate.capacity:
        tx.run("lane", "drop", queue=queue, key=key)
        return False
    full_at = tx.now + round((rate.capacity - bucket.tokens) / rate.per_ms) + 1
    _put(tx, queue, key, lane[0] if lane else 0, False, full_at, bucket, cooling=True)
    return False


def _put(
    tx: Tx,
    queue: str,
    key: str,
    turn: int,
    ready: bool,
    ready_at: int | None,
    bucket: Bucket | None,
    *,
    cooling: bool = False,
) -> None:
    tx.run(
        "lane", "put", queue=queue, key=key, turn=turn, ready=ready, ready_at=ready_at, cooling=cooling,
        tokens=bucket.tokens if bucket else None, tokens_at=bucket.at_ms if bucket else None,
    )  # fmt: skip


def next_turn(tx: Tx, queue: str) -> int:
    """Return the number of the next turn: a new lane stands behind those that are there."""
    return int(tx.value("queue", "next_turn", queue=queue))


def recheck_due(tx: Tx, queue: str, limit: int) -> int:
    """Check the lanes whose token has come, or whose bucket is full again, at most `limit` of each.

    Return the larger of both numbers.
    """
    most = 0
    for which in ("due", "cooled"):
        keys = tx.run("lane", which, queue=queue, now=tx.now, limit=limit).fetchall()
        most = max(most, len(keys))
        for (key,) in keys:
            recheck(tx, queue, key)
    return most


def recheck_queue(tx: Tx, queue: str) -> None:
    """Check every lane of a queue again, after a limit was changed."""
    recheck_all(tx, queue, [key for (key,) in tx.run("lane", "keys", queue=queue).fetchall()])
