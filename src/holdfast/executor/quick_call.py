"""The quick way to call a handler and to encode what it returns: for tasks with plain parameters and our codecs.

It equals `arguments` and `completed` of `call.py`, step for step, and knows no words for errors: whatever it raises, or
cannot do, is left to those. `tests/executor/test_quick_call.py` compares the two.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ..app.task import AnyTask
from ..codec.format import shape_in
from ..codec.shape import Arguments, Shape
from ..handler.continuation import Continued


class QuickCall(msgspec.Struct, frozen=True, eq=False):
    """How payloads of one task become arguments, and its results bytes."""

    values: Callable[[bytes], tuple[object, ...]]
    """Returns the arguments of a payload in the order of the parameters; raises for whatever is unusual about it."""
    _encode: Callable[[object], bytes]
    _nothing: bytes | None
    """The bytes of `None`, which most handlers return, where they may."""
    _most: int

    def encoded(self, result: object) -> bytes | None:
        """Return the bytes of a result; `None` for one that goes the slow way."""
        if result is None:
            return self._nothing
        if isinstance(result, Continued):
            return None
        try:
            data = self._encode(result)
        except Exception:
            return None
        return data if len(data) <= self._most else None


def quick_call(task: AnyTask) -> QuickCall | None:
    """Return the quick way to call a task's handler; `None` where there is none."""
    signature = task.signature
    if signature.injected or signature.supplied or not signature.is_by_position:
        return None
    arguments, result = shape_in(task.codec, signature.type), shape_in(task.result_codec, signature.returns)
    if not isinstance(arguments, Arguments) or result is None:
        return None
    try:
        values = arguments.decoder_in_order()
    except Exception:  # the slow way has words for what cannot be decoded
        return None
    return QuickCall(values, result.encode, _nothing(result, task.max_result), task.max_result)


def _nothing(result: Shape, most: int) -> bytes | None:
    """Return the bytes of `None`; `None` where a handler must not return it."""
    try:
        data = result.encode(None)
    except Exception:
        return None
    return data if len(data) <= most else None
