"""The first step of an attempt: its handler runs until it waits, and most never do.

It equals the beginning of `Attempt.run`, with no coroutine around the handler's own, for attempts of which nothing
unusual is known. `tests/worker/attempts/test_first_step.py` compares the two.
"""

from __future__ import annotations

import types
from collections.abc import Coroutine, Generator
from time import monotonic
from types import CoroutineType
from typing import Any

from ...executor.call import is_awaitable
from ...executor.quick_call import QuickCall
from ...handler.job import _current
from ...store.contract import Complete
from ...telemetry import traces
from .attempt import Attempt

Rest = Coroutine[Any, Any, None]
"""What is left to do for an attempt, to be run in the same context."""


def is_usual(attempt: Attempt) -> bool:
    """Return whether nothing is known of an attempt that wants the slow way: no task, or a reason to stop."""
    return attempt.claimed.task is not None and attempt._reason is None and not attempt._cancelled


def first_step(attempt: Attempt, quick: QuickCall, tracing: traces.Tracing | None) -> Complete | Rest | None:
    """Return how the job was completed; or what is left to do; `None` when no handler was called, for the slow way.

    An attempt whose span is to be linked to what its job waited for goes the slow way, which asks the store for that.
    """
    claimed = attempt.claimed
    _current.set(attempt.job)
    if tracing is not None or claimed.envelope.headers:
        attempt._span = traces.process(claimed, tracing)
        if attempt._span is not None and attempt._span.waits:
            return None
    try:
        values = quick.values(claimed.payload)
    except Exception:
        return None
    attempt.began = monotonic()
    try:
        result = attempt.handler.fn(*values)
        if type(result) is CoroutineType:
            try:
                awaited = result.send(None)
            except StopIteration as stop:
                result = stop.value
            else:
                return attempt.finish(_resumed(result, awaited))
        elif is_awaitable(result):
            return attempt.finish(result)
    except BaseException as error:
        return attempt.end_raised(error)
    data = quick.encoded(result) if attempt._transaction is None and attempt._reason is None else None
    if data is None:
        return attempt.finish(_returned(result))
    settlement = Complete(claimed.lease, data, attempt.job._ttl_ms)
    if attempt._span is not None:
        attempt.end_span(settlement)
    return settlement


async def _returned(result: object) -> object:
    return result


@types.coroutine
def _resumed(coroutine: Coroutine[Any, Any, object], awaited: object) -> Generator[Any, Any, object]:
    """Go on with a coroutine that waits, as `await` would have done from its beginning."""
    try:
        while True:
            try:
                sent = yield awaited
            except GeneratorExit:
                coroutine.close()
                raise
            except BaseException as error:
                awaited = coroutine.throw(error)
            else:
                awaited = coroutine.send(sent)
    except StopIteration as stop:
        return stop.value
