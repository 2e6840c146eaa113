"""Plain jobs as workers get them: records with a task, a payload, perhaps a key and an envelope, that never ran.

It equals `claimed` of `view.py`, which reads all others. `tests/store/redis/test_plain_record.py` compares the two.
"""

from __future__ import annotations

import msgspec

from ....core.envelope import EMPTY, opened
from ....core.policy import Counters
from ...contract import Claimed, Lease
from ..keys import long
from .job import HEAD, REST, STATES

_SIZE = HEAD.size
_FRESH = Counters(attempts=1)
_from_bytes = int.from_bytes


class PlainRest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The rest of a record, where nothing but a key and an envelope is in it."""

    key: str | None = None
    envelope: str | None = None


_rest = msgspec.msgpack.Decoder(PlainRest).decode


def plain_claimed(queue: str, run: int, raw: bytes, timeout_ms: int, now: int) -> Claimed | None:
    """Return a plain job that starts for the first time now; `None` for any other, and for one that was cut off."""
    letter, flags, id_size, task_size, enqueued, payload_size = HEAD.unpack_from(raw)
    at, envelope, key = _SIZE, EMPTY, None
    if flags == REST:
        size = _from_bytes(raw[at : at + 4], "big")
        try:
            rest = _rest(raw[at + 4 : at + 4 + size])
            key, envelope = rest.key, opened(rest.envelope) if rest.envelope else EMPTY
        except msgspec.MsgspecError:  # there is more in it, or it cannot be read
            return None
        at += 4 + size
    elif flags:
        return None
    task_at = at + id_size
    payload_at = task_at + task_size
    if not task_size or letter not in STATES or len(raw) - payload_at != payload_size:
        return None
    taken_in = _from_bytes(enqueued, "big")
    return Claimed(
        lease=Lease(queue, long(raw[at:task_at]), run, 1),
        task=raw[task_at:payload_at].decode(),
        payload=raw[payload_at:],
        priority=0,
        key=key,
        run_at_ms=taken_in,
        enqueued_at_ms=taken_in,
        claimed_at_ms=now,
        counters=_FRESH,
        envelope=envelope,
        timeout_ms=timeout_ms if timeout_ms >= 0 else None,
    )
