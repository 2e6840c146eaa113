"""A log that cannot be is found out, and what is wrong with it is named."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.event import Event
from holdfast.core.job import JobRecord
from holdfast.core.policy import Counters
from holdfast.core.state import State
from holdfast.testing.replay import Replay


def told(transition: str, state: State | None, run: int = 1, worker: str | None = None, **fields: Any) -> Event:
    counters = fields.pop("counters", Counters())
    return Event(
        position="p", at_ms=0, queue=fields.pop("queue", "q"), id=fields.pop("id", f"j{run}"), run=run,
        attempt=counters.attempts, transition=transition, state=state, counters=counters, worker=worker, **fields,
    )  # fmt: skip


ONCE = Counters(attempts=1)


def enqueue(run: int = 1, **fields: Any) -> Event:
    return told("enqueue", State.WAITING, run, **fields)


def claim(run: int = 1, counters: Counters = ONCE, **fields: Any) -> Event:
    return told("claim", State.ACTIVE, run, "w", counters=counters, **fields)


def complete(run: int = 1, **fields: Any) -> Event:
    return told("complete", State.COMPLETED, run, "w", counters=ONCE, **fields)


def reap(run: int = 1, worker: str = "w", **fields: Any) -> Event:
    return told("reap", State.WAITING, run, worker, counters=Counters(attempts=1, stalls=1), **fields)


def replayed(*events: Event, **options: Any) -> Replay:
    replay = Replay(**options)
    for event in events:
        replay.add(event)
    return replay


def test_a_life_as_it_should_be_replays() -> None:
    failed = Counters(attempts=1, failures=1)
    replay = replayed(
        enqueue(),
        claim(),
        told("progress", State.ACTIVE, worker="w", counters=ONCE),
        told("retry", State.SCHEDULED, worker="w", cause="failure", counters=failed),
        told("update", State.SCHEDULED, counters=ONCE),
        told("promote", State.WAITING, counters=ONCE),
        claim(counters=Counters(attempts=2)),
        told("fail", State.FAILED, worker="w", cause="stall", counters=Counters(attempts=2, stalls=1)),
        told("expire", None, counters=Counters(attempts=2, stalls=1)),
    )
    replay.check()
    assert replay.runs["q", 1].state is None


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        ([told("update", State.WAITING), enqueue()], "update to waiting: no such run"),
        ([claim(), enqueue()], "claim to active: no such run"),
        ([enqueue(), enqueue()], "its run is not new"),
        ([enqueue(), complete()], "it cannot come from waiting"),
        ([enqueue(), claim(), claim(counters=Counters(attempts=2))], "it cannot come from active"),
        ([enqueue(), claim(), complete(), complete()], "it cannot come from completed"),
        ([enqueue(), claim(counters=Counters(attempts=2))], "0 became attempts=2"),
        ([enqueue(), claim(), reap(worker="another")], "w held it, and not another"),
        ([enqueue(), told("promote", State.SCHEDULED)], "it cannot lead to scheduled"),
        ([enqueue(), claim(id="another")], "the run was of 'j1'"),
        ([enqueue(), told("delete", None), claim()], "gone: claim to active: no such run"),
        ([enqueue(), told("extend", State.ACTIVE)], "no such event"),
        ([enqueue(1, id="j"), claim(1, id="j"), enqueue(2, id="j"), claim(2, id="j")], "another run of the id is"),
    ],
)  # fmt: skip
def test_an_event_that_cannot_be_is_named(events: list[Event], problem: str) -> None:
    with pytest.raises(AssertionError, match="does not replay") as raised:
        replayed(*events).check()
    assert problem in str(raised.value)


def test_more_active_than_a_limit_allowed_is_named() -> None:
    events = [event for run in (1, 2, 3) for event in (enqueue(run, key="k"), claim(run, key="k"))]
    assert replayed(*events, concurrency={"q": 3}, key_concurrency={"q": 3, "other": 1}).problems == []
    (problem,) = replayed(*events, concurrency={"q": 2}).problems
    assert "3 are active, and the limit is 2" in problem
    (problem,) = replayed(*events, key_concurrency={"q": 2}).problems
    assert "3 of key 'k' are active, and the limit is 2" in problem
    ended = [*events[:4], complete(1, key="k"), *events[4:]]
    assert replayed(*ended, concurrency={"q": 2}, key_concurrency={"q": 2}).problems == []


def record(run: int, state: State, counters: Counters = ONCE) -> JobRecord:
    return JobRecord(
        queue="q", id=f"j{run}", run=run, task=None, state=state, payload=b"", run_at_ms=0, enqueued_at_ms=0,
        counters=counters,
    )  # fmt: skip


def test_a_store_that_is_not_as_its_log_says_is_named() -> None:
    replay = replayed(enqueue(1), enqueue(2), claim(2), complete(2), enqueue(3), claim(3))
    replay.compare([record(2, State.ACTIVE), record(3, State.ACTIVE, Counters(attempts=2)), record(4, State.WAITING)])
    assert replay.problems == [
        "q/j2 run 2 is active with attempts=1, and by the log completed with attempts=1",
        "q/j3 run 3 is active with attempts=2, and by the log active with attempts=1",
        "q/j4 run 4 is waiting, and no event tells of it",
        "q/j1 run 1 is waiting by the log, and not in the store",
    ]


def test_what_is_over_may_be_gone_and_a_log_that_was_trimmed_may_begin_anywhere() -> None:
    replay = replayed(enqueue(1), claim(1), complete(1))
    replay.compare([])
    replay.check()
    trimmed = replayed(claim(1), complete(1), whole=False)
    trimmed.compare([record(1, State.COMPLETED), record(9, State.WAITING)])
    trimmed.check()
