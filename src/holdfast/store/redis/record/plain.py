"""Plain jobs as workers get them: records of jobs that have nothing but a task and a payload, and never ran.

It equals `claimed` of `view.py`, which reads all others. `tests/store/redis/test_plain_record.py` compares the two.
"""

from __future__ import annotations

from ....core.policy import Counters
from ...contract import Claimed, Lease
from ..keys import long
from .job import HEAD, STATES

_SIZE = HEAD.size
_FRESH = Counters(attempts=1)
_from_bytes = int.from_bytes


def plain_claimed(queue: str, run: int, raw: bytes, timeout_ms: int, now: int) -> Claimed | None:
    """Return a plain job that starts for the first time now; `None` for any other, and for one that was cut off."""
    letter, flags, id_size, task_size, enqueued, payload_size = HEAD.unpack_from(raw)
    task_at = _SIZE + id_size
    payload_at = task_at + task_size
    if flags or not task_size or letter not in STATES or len(raw) - payload_at != payload_size:
        return None
    at = _from_bytes(enqueued, "big")
    return Claimed(
        lease=Lease(queue, long(raw[_SIZE:task_at]), run, 1),
        task=raw[task_at:payload_at].decode(),
        payload=raw[payload_at:],
        priority=0,
        key=None,
        run_at_ms=at,
        enqueued_at_ms=at,
        claimed_at_ms=now,
        counters=_FRESH,
        timeout_ms=timeout_ms if timeout_ms >= 0 else None,
    )
