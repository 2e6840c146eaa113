"""What keys may change: queues are paused and resumed, jobs requeued and cancelled."""

from __future__ import annotations

from ...app.app import Holdfast
from ...core.state import State
from ...core.visible import visible
from ...store.contract import Filter
from .state import Intent

AT_ONCE = 200
MOST_LOOKED_AT = 20_000
"""Dead letters that are looked at for those of one group."""


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
        return _requeued(await _requeue_group(app, intent.signature))
    if intent.kind == "requeue_job":
        done = await app.store.requeue(Filter(queue=intent.queue, ids=(intent.id,), states=_FINISHED))
        return _requeued(len(done)) if done else "not requeued: it was before, or its id is in use again"
    return await _cancel(app, intent)


_FINISHED = (State.COMPLETED, State.FAILED, State.CANCELLED)


def _requeued(count: int) -> str:
    return f"{count} {'job' if count == 1 else 'jobs'} requeued"


async def _requeue_all(app: Holdfast, which: Filter) -> int:
    """Requeue all that match, some at a time, so that no step of the store is long."""
    total = 0
    while done := await app.store.requeue(which, limit=AT_ONCE):
        total += len(done)
    return total


async def _requeue_group(app: Holdfast, signature: str) -> int:
    """Requeue the dead letters with one signature, the newest first."""
    total = looked_at = 0
    cursor: str | None = None
    while looked_at < MOST_LOOKED_AT:
        page = await app.store.jobs(Filter(states=(State.FAILED,)), limit=AT_ONCE, cursor=cursor)
        found: dict[str, list[str]] = {}
        for job in page.jobs:
            if job.holds_id and job.error is not None and job.error.signature == signature:
                found.setdefault(job.queue, []).append(job.id)
        for queue, ids in found.items():
            which = Filter(queue=queue, ids=tuple(ids), states=(State.FAILED,))
            total += len(await app.store.requeue(which, limit=len(ids)))
        looked_at += len(page.jobs)
        cursor = page.cursor
        if cursor is None:
            break
    return total


async def _cancel(app: Holdfast, intent: Intent) -> str:
    answer = await app.cancel(intent.queue, intent.id, "signal")
    name = f"{visible(intent.queue)}/{visible(intent.id)}"
    if answer.signalled:
        return f"the handler of {name} is told to stop"
    if answer:
        return f"{name} is cancelled"
    return f"{name} was not cancelled: " + ("it is gone" if answer.state is None else f"it is {answer.state} already")
