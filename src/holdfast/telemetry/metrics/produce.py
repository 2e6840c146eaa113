"""The metrics of producers: one wrapper round a store counts what is enqueued, how long calls take and which fail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from ...store.contract import Answer, Fired, NewJob, ScheduleChange, Store
from ..observed_store import ObservedStore
from ..observer import Observer, StoreCall
from .calls import CallCounts
from .job_counts import CountsByTask


def counted(store: Store, jobs: CountsByTask, calls: CallCounts, also: Observer | None = None) -> Store:
    """Return the store, whose calls are counted. What joins a transaction of the caller's is not: it may be undone."""

    def tell(call: StoreCall) -> None:
        calls.add(call)
        if also is not None:
            also.store_call(call)

    def look(name: str, args: Sequence[object], reply: object) -> None:
        if name == "enqueue":
            given, answers = cast(Sequence[NewJob], args[1]), cast(list[Answer], reply)
            jobs.enqueued(str(args[0]), given, answers)
        elif name == "put_schedule" and (fired := cast(Fired, reply)).answers:
            jobs.enqueued(cast(ScheduleChange, args[0]).queue, cast(Sequence[NewJob], args[1]), fired.answers)

    return cast(Store, ObservedStore(store, tell, look))
