"""What keys may change: queues are paused and resumed, jobs requeued and cancelled."""

from __future__ import annotations

from ...app.app import Holdfast
from ...core.state import State
from ...core.visible import visible
from ...store.contract import Filter
from .state import Intent

AT_ONCE = 200
MOST_REQUEUED = 100_000


async def carry_out(app: Holdfast, intent: Intent) -> str:
    """Do what was asked for; return what was done, in words."""
    queue = visible(intent.queue)
    if intent.kind == "pause":
        await app.store.configure(intent.queue, {"paused": True})
        return f"{queue} is paused"
    if intent.kind == "resume":
        await app.store.configure(intent.queue, {"paused": False})
        return f"{queue} goes on"
    if intent.kind == "requeue_queue":
        return _requeued(await _requeue_all(app, Filter(queue=intent.queue, states=(State.FAILED,))))
    if intent.kind == "requeue_group":
        return _requeued(await _requeue_all(app, Filter(signature=intent.signature, states=(State.FAILED,))))
    if intent.kind == "requeue_job":
        done = await app.store.requeue(Filter(queue=intent.queue, ids=(intent.id,), states=_FINISHED))
        return _requeued(len(done)) if done else "not requeued: it was before, or its id is in use again"
    return await _cancel(app, intent)


_FINISHED = (State.COMPLETED, State.FAILED, State.CANCELLED)


def _requeued(count: int) -> str:
    return f"{count} {'job' if count == 1 else 'jobs'} requeued"


async def _requeue_all(app: Holdfast, which: Filter) -> int:
    """Requeue all that match now, some at a time, so that no step of the store is long.

    As many as there are at the start, and no more: one that fails again meanwhile is not taken twice.
    """
    left = total = (await app.store.count(which, most=MOST_REQUEUED)).number
    while left > 0 and (done := await app.client.requeue(which, min(AT_ONCE, left), False)):
        left -= len(done)
    return total - left


async def _cancel(app: Holdfast, intent: Intent) -> str:
    answer = await app.cancel(intent.queue, intent.id, "signal")
    name = f"{visible(intent.queue)}/{visible(intent.id)}"
    if answer.signalled:
        return f"the handler of {name} is told to stop"
    if answer:
        return f"{name} is cancelled"
    return f"{name} was not cancelled: " + ("it is gone" if answer.state is None else f"it is {answer.state} already")
