"""The log, replayed: every event must be a legal step, and in the end the store must be as its log says.

```python
from holdfast.testing.replay import replay

await replay(app.store, concurrency={"mail": 3})  # raises AssertionError, and says which events are wrong
```

It is a ledger of its own: it knows the table of transitions and nothing of any store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import msgspec

from ..core.action import OPERATE
from ..core.event import Event
from ..core.job import JobRecord
from ..core.policy import COUNTER, Cause, Counters
from ..core.state import PENDING, UNFINISHED, State
from ..core.transition import TRANSITIONS
from ..store.contract import Filter, Store

Run = tuple[str, int]
"""A run, by its queue and number."""
SHOWN = 20
"""An error tells at most so many problems."""
ENDS = {"retry", "snooze", "release", "reap"}
"""What always ends an attempt, besides `complete`, `fail` and `cancel`, which need not."""

GOING_ON = frozenset({State.ACTIVE, State.COMPLETED})
"""The states of a run that gets a successor: it is active, or another job of its chain is."""


class Replayed(NamedTuple):
    """A run as the log has it. `state` is `None` when it is gone."""

    id: str
    state: State | None
    counters: Counters
    key: str | None = None
    worker: str | None = None


class Replay:
    """What a log says of every run, and what is wrong with it.

    `whole` is false for a log whose beginning was trimmed: a run may then begin with any event. Limits are the number
    of jobs that may be active at once, by queue; give those that held all the time.
    """

    def __init__(
        self,
        *,
        whole: bool = True,
        concurrency: Mapping[str, int] | None = None,
        key_concurrency: Mapping[str, int] | None = None,
    ) -> None:
        self.runs: dict[Run, Replayed] = {}
        self.problems: list[str] = []
        self.events = 0
        self.active: Counter[str | tuple[str, str]] = Counter()
        """How many jobs are active, by queue, and by queue and key."""
        self._held: Counter[tuple[str, str]] = Counter()
        self._whole = whole
        self._concurrency = concurrency or {}
        self._key_concurrency = key_concurrency or {}

    def add(self, event: Event) -> None:
        """Take the next event."""
        self.events += 1
        if event.transition == OPERATE:
            return  # an action is of no run
        run = (event.queue, event.run)
        before = self.runs.get(run)
        if before is not None or (self._whole or starts(event)):
            for problem in wrong_with(before, event):
                self._complain(event, before, problem)
        worker = event.worker if event.transition == "claim" else before and before.worker
        after = Replayed(before.id if before else event.id, event.state, event.counters, event.key, worker)
        self.runs[run] = after
        self._count(event, before, after)

    def compare(self, jobs: Iterable[JobRecord], *, besides: Collection[tuple[str, str]] = ()) -> None:
        """Compare what the log says with every job that the store lists; it must be at rest.

        Runs that are over may be gone without a trace while they wait to be removed; others not, `besides` these queues
        and ids.
        """
        missing = {
            (queue, number): known
            for (queue, number), known in self.runs.items()
            if known.state in UNFINISHED and (queue, known.id) not in besides
        }
        for job in jobs:
            known = self.runs.get((job.queue, job.run))
            missing.pop((job.queue, job.run), None)
            if known is None:
                if self._whole:
                    self.problems.append(f"{_name(job)} is {job.state}, and no event tells of it")
            elif (known.state, known.counters) != (job.state, job.counters):
                self.problems.append(
                    f"{_name(job)} is {job.state} with {_said(job.counters)}, "
                    f"and by the log {known.state} with {_said(known.counters)}"
                )
        for (queue, number), known in missing.items():
            self.problems.append(f"{queue}/{known.id} run {number} is {known.state} by the log, and not in the store")

    def check(self) -> None:
        """Raise an error that names what is wrong, if anything is."""
        if self.problems:
            rest = len(self.problems) - SHOWN
            told = self.problems[:SHOWN] + ([f"and {rest} more"] if rest > 0 else [])
            raise AssertionError(f"the log of {self.events} events does not replay:\n" + "\n".join(told))

    def _count(self, event: Event, before: Replayed | None, after: Replayed) -> None:
        if before is not None and before.state is State.ACTIVE:
            self._hold(event.queue, before, -1)
        if after.state is State.ACTIVE:
            self._hold(event.queue, after, 1)
        if event.transition == "claim":
            self._limits(event, before)

    def _hold(self, queue: str, run: Replayed, number: int) -> None:
        self.active[queue] += number
        self._held[queue, run.id] += number
        if run.key is not None:
            self.active[queue, run.key] += number

    def _limits(self, event: Event, before: Replayed | None) -> None:
        if self._held[event.queue, event.id] > 1:
            self._complain(event, before, "another run of the id is active")
        limit, key_limit = self._concurrency.get(event.queue), self._key_concurrency.get(event.queue)
        if limit is not None and self.active[event.queue] > limit:
            self._complain(event, before, f"{self.active[event.queue]} are active, and the limit is {limit}")
        if event.key is not None and key_limit is not None and self.active[event.queue, event.key] > key_limit:
            active = self.active[event.queue, event.key]
            self._complain(event, before, f"{active} of key {event.key!r} are active, and the limit is {key_limit}")

    def _complain(self, event: Event, before: Replayed | None, problem: str) -> None:
        was = "unknown" if before is None else before.state or "gone"
        self.problems.append(
            f"event {self.events} at {event.position}: {event.queue}/{event.id} run {event.run}, {was}: "
            f"{event.transition}{f' ({event.cause})' if event.cause else ''} to {event.state or 'nothing'}: {problem}"
        )


async def replay(
    store: Store,
    *,
    whole: bool = True,
    concurrency: Mapping[str, int] | None = None,
    key_concurrency: Mapping[str, int] | None = None,
) -> Replay:
    """Replay the log of a store that is at rest, compare it with its jobs, and raise when they differ."""
    replayed = Replay(whole=whole, concurrency=concurrency, key_concurrency=key_concurrency)
    position = await read(store, replayed)
    while True:
        jobs = await listed(store)
        seen = replayed.events
        position = await read(store, replayed, position)
        if replayed.events == seen:
            break
    replayed.compare(jobs)
    replayed.check()
    return replayed


async def read(store: Store, into: Replay, position: str | None = None) -> str:
    """Replay what comes behind a position; return the position after it."""
    while True:
        page = await store.events(position, limit=5000)
        for event in page.events:
            into.add(event)
        if position == page.position:
            return page.position
        position = page.position


async def listed(store: Store) -> list[JobRecord]:
    """Return every job that a store lists."""
    found: list[JobRecord] = []
    cursor: str | None = None
    while True:
        page = await store.jobs(Filter(), limit=1000, cursor=cursor)
        found += page.jobs
        cursor = page.cursor
        if cursor is None:
            return found


def starts(event: Event) -> bool:
    """True for an event that begins a run."""
    return event.transition in ("enqueue", "requeue") or (event.transition, event.cause) == ("cancel", "successor")


def wrong_with(before: Replayed | None, event: Event) -> list[str]:
    """Return what is wrong with an event of a run that stood like this."""
    found = []
    transition = TRANSITIONS.get(event.transition)
    if transition is None or not transition.event:
        return ["no such event"]
    if starts(event):
        return [] if before is None and event.counters == Counters() else ["its run is not new"]
    if before is None or before.state is None:
        return ["no such run"]
    if before.state not in sources(event):
        found.append(f"it cannot come from {before.state}")
    if event.state not in targets(event, before.state):
        found.append(f"it cannot lead to {event.state}")
    if event.cause == Cause.CORRUPT:  # nobody knows what its record was
        return found
    if event.id != before.id:
        found.append(f"the run was of {before.id!r}")
    if event.counters not in counted(before, event) or event.attempt != event.counters.attempts:
        found.append(f"{_said(before.counters)} became {_said(event.counters)}")
    if event.transition in ENDS and event.worker != before.worker:
        found.append(f"{before.worker} held it, and not {event.worker}")
    return found


def sources(event: Event) -> frozenset[State]:
    """Return the states from which an event may come."""
    if event.transition == "complete" and event.cause == "outside":
        return frozenset(UNFINISHED)
    if event.transition == "cancel" and event.run_ms is not None:
        return frozenset({State.ACTIVE})
    if event.transition == "update" and event.cause == "successor":
        return PENDING | GOING_ON
    return TRANSITIONS[event.transition].source


def targets(event: Event, before: State) -> tuple[State | None, ...]:
    """Return the states to which an event may lead."""
    if event.transition == "update" and before in GOING_ON:
        return (before,)
    return TRANSITIONS[event.transition].target or (None,)


def counted(before: Replayed, event: Event) -> list[Counters]:
    """Return what the counters may be after an event."""
    same = before.counters
    if event.transition == "claim":
        return [msgspec.structs.replace(same, attempts=same.attempts + 1)]
    if event.transition == "update":
        return [same, Counters(attempts=same.attempts)]
    if event.transition == "reap":
        return [_more(same, "stalls")]
    if event.transition == "release":
        name = COUNTER.get(Cause(event.cause or "release"))
        return [same if name is None else _more(same, name)]
    if event.transition == "retry":
        return [_more(same, COUNTER[Cause(event.cause or "failure")])]
    if event.transition == "fail" and event.cause == Cause.SNOOZE:
        return [same]
    if event.transition == "fail" and event.cause == Cause.ATTEMPTS and before.state is State.ACTIVE:
        return [same, *(_more(same, name) for name in COUNTER.values())]  # whatever ended the last of them
    if event.transition == "fail" and before.state is State.ACTIVE:
        return [_more(same, COUNTER.get(Cause(event.cause or "failure"), "failures"))]
    return [same]


def _more(counters: Counters, name: str) -> Counters:
    return msgspec.structs.replace(counters, **{name: getattr(counters, name) + 1})


def _said(counters: Counters) -> str:
    return " ".join(f"{name}={number}" for name, number in msgspec.structs.asdict(counters).items() if number) or "0"


def _name(job: JobRecord) -> str:
    return f"{job.queue}/{job.id} run {job.run}"
