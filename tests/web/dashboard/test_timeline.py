"""The attempts of a run, from its events."""

from __future__ import annotations

from typing import Any

from holdfast.core.event import Event
from holdfast.core.state import State
from holdfast.web.dashboard.draw.attempts import attempt_bar
from holdfast.web.dashboard.view.timeline import MOST_ATTEMPTS, timeline


def event(at: int, transition: str, state: State | None, attempt: int = 0, **more: Any) -> Event:
    """Return an event of one run."""
    return Event(position=str(at), at_ms=at, queue="q", id="i", run=7, attempt=attempt, transition=transition,
                 state=state, **more)  # fmt: skip


FIRST = [
    event(0, "enqueue", State.WAITING),
    event(100, "claim", State.ACTIVE, 1, worker="w1"),
    event(400, "retry", State.SCHEDULED, 1, error_type="Oops", cause="failure"),
    event(1400, "promote", State.WAITING, 1),
    event(1500, "claim", State.ACTIVE, 2, worker="w2"),
]


def test_each_attempt_has_its_wait_its_run_its_worker_and_its_end() -> None:
    line = timeline([*FIRST, event(2000, "complete", State.COMPLETED, 2)], 7, 9999)
    assert line is not None
    assert [(bar.number, bar.wait_ms, bar.ran_ms(0), bar.worker, bar.outcome) for bar in line.bars] == [
        (1, 100, 300, "w1", "will be tried again"), (2, 1100, 500, "w2", "completed"),
    ]  # fmt: skip
    assert (line.first_ms, line.last_ms) == (0, 2000)


def test_what_runs_has_run_until_now() -> None:
    line = timeline(FIRST, 7, 2500)
    assert line is not None
    assert (line.bars[-1].outcome, line.bars[-1].ran_ms(2500), line.last_ms) == ("running", 1000, 2500)


def test_what_waits_is_shown_waiting_and_other_runs_are_not() -> None:
    line = timeline([event(0, "enqueue", State.WAITING)], 7, 50)
    assert line is not None
    assert [(bar.outcome, bar.colour, bar.wait_ms) for bar in line.bars] == [("waiting", "waiting", None)]
    assert timeline(FIRST, 8, 50) is None


def test_a_job_of_a_thousand_attempts_shows_its_latest() -> None:
    events = [event(0, "enqueue", State.WAITING)]
    for n in range(1000):
        events.append(event(n * 10 + 1, "claim", State.ACTIVE, n + 1))
        events.append(event(n * 10 + 2, "release", State.WAITING, n + 1))
    line = timeline(events, 7, 20_000)
    assert line is not None
    assert len(line.bars) == MOST_ATTEMPTS
    assert line.left_out == 1001 - MOST_ATTEMPTS


def test_a_short_attempt_in_a_long_life_can_be_seen() -> None:
    events = [event(0, "enqueue", State.WAITING), event(86_400_000, "claim", State.ACTIVE, 1),
              event(86_400_001, "complete", State.COMPLETED, 1)]  # fmt: skip
    line = timeline(events, 7, 0)
    assert line is not None
    assert 'width="4.0"' in attempt_bar(line.bars[0], line, 0)
