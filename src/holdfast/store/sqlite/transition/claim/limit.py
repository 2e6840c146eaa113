"""The limits of a queue: how many of its jobs may run at once, and how many start in a while."""

from __future__ import annotations

import math

from .....core.limit import Bucket, QueueSettings, next_token_ms, refill
from ...tx import Tx


def allowed(tx: Tx, queue: str, settings: QueueSettings, room: int) -> tuple[int, Bucket | None]:
    """Return how many jobs the queue's own limits let start now, and its bucket."""
    if settings.concurrency is not None:
        room = min(room, settings.concurrency - int(tx.value("claim", "active", queue=queue)))
    if settings.rate is None:
        return room, None
    row = tx.row("queue", "get", queue=queue)
    assert row is not None
    stored = None if row["tokens"] is None else Bucket(row["tokens"], row["tokens_at_ms"])
    bucket = refill(settings.rate, stored, tx.now)
    return min(room, math.floor(bucket.tokens)), bucket


def pay(tx: Tx, queue: str, settings: QueueSettings, bucket: Bucket, count: int, next_at: int | None) -> int | None:
    """Take a token for each job from the queue's bucket; return when the queue may give again."""
    assert settings.rate is not None
    bucket = Bucket(bucket.tokens - count, bucket.at_ms)
    tx.run("queue", "tokens", queue=queue, tokens=bucket.tokens, at=bucket.at_ms)
    if bucket.tokens >= 1:
        return next_at
    token_at = next_token_ms(settings.rate, bucket)
    if _is_waiting(tx, queue):
        return token_at
    return None if next_at is None else max(next_at, token_at)


def _is_waiting(tx: Tx, queue: str) -> bool:
    return (
        bool(tx.value("claim", "keyless_waiting", queue=queue))
        or bool(tx.run("lane", "ready", queue=queue, limit=1).fetchone())
        or bool(tx.run("claim", "suspects", queue=queue, limit=1).fetchone())
    )
