"""The table of transitions, and what a store must answer."""

from __future__ import annotations

import itertools
from typing import get_args

import pytest

from holdfast.app.hooks import WORKER_EVENTS
from holdfast.core.state import EVERY, FINISHED, LETTER, MEANING, PENDING, UNFINISHED, State
from holdfast.core.transition import TRANSITIONS, Reply, header, judge
from holdfast.store.contract import TRANSITION_OF, CancelResult, DeleteResult, Settlement
from holdfast.store.sqlite import sql

NAMES = [
    "enqueue", "update", "promote", "unblock", "claim", "extend", "progress", "complete", "retry", "fail", "snooze",
    "release", "cancel", "reap", "requeue", "expire", "delete",
]  # fmt: skip


def test_every_transition_of_the_design_is_in_the_table_and_no_other() -> None:
    assert list(TRANSITIONS) == NAMES


def test_there_are_seven_states_each_with_a_meaning() -> None:
    assert len(State) == 7
    assert set(MEANING) == set(State) == EVERY
    assert PENDING | {State.ACTIVE} == UNFINISHED
    assert UNFINISHED | FINISHED == EVERY
    assert not UNFINISHED & FINISHED
    assert [state for state in State if state.finished] == [State.COMPLETED, State.FAILED, State.CANCELLED]


def test_every_exit_from_active_is_fenced_or_states_its_own_guard() -> None:
    for name, transition in TRANSITIONS.items():
        leaves = State.ACTIVE in transition.source and transition.target != (State.ACTIVE,)
        assert not leaves or transition.fenced or name in ("reap", "delete"), name


def test_every_state_can_be_reached_and_left() -> None:
    reached = {state for transition in TRANSITIONS.values() for state in transition.target}
    left = {state for transition in TRANSITIONS.values() for state in transition.source}
    assert left == EVERY
    assert reached == EVERY


def test_only_a_heartbeat_leaves_no_event() -> None:
    assert [name for name, transition in TRANSITIONS.items() if not transition.event] == ["extend"]


@pytest.mark.parametrize(
    ("name", "state", "holds", "repeated", "reply"),
    [
        ("complete", State.ACTIVE, True, False, Reply.OK),
        ("complete", State.ACTIVE, False, False, Reply.STALE),
        ("complete", State.COMPLETED, False, True, Reply.OK),
        ("complete", State.COMPLETED, False, False, Reply.STALE),
        ("complete", None, True, False, Reply.MISSING),
        ("promote", State.SCHEDULED, False, False, Reply.OK),
        ("promote", State.WAITING, False, False, Reply.WRONG_STATE),
        ("cancel", State.ACTIVE, False, False, Reply.WRONG_STATE),
        ("cancel", State.BLOCKED, False, False, Reply.OK),
        ("enqueue", None, False, False, Reply.OK),
        ("enqueue", State.WAITING, False, False, Reply.WRONG_STATE),
        ("enqueue", State.COMPLETED, False, False, Reply.OK),
        ("requeue", State.FAILED, False, False, Reply.OK),
        ("requeue", State.ACTIVE, False, False, Reply.WRONG_STATE),
        ("delete", State.ACTIVE, False, False, Reply.OK),
    ],
)
def test_judge(name: str, state: State | None, holds: bool, repeated: bool, reply: Reply) -> None:
    assert judge(name, state, holds_lease=holds, repeated=repeated) is reply


def test_complete_from_outside_applies_to_any_unfinished_state() -> None:
    for state in State:
        expected = Reply.WRONG_STATE if state.finished else Reply.OK
        assert judge("complete", state, outside=True) is expected
    assert judge("complete", None, outside=True) is Reply.MISSING


def test_judge_has_a_word_for_every_case_and_never_says_ok_to_a_stranger() -> None:
    for name, state, holds in itertools.product(TRANSITIONS, (None, *State), (True, False)):
        reply = judge(name, state, holds_lease=holds)
        transition = TRANSITIONS[name]
        if transition.fenced and not holds:
            assert reply in (Reply.STALE, Reply.MISSING)
        if reply is Reply.OK and transition.source:
            assert state in transition.source
        assert judge(name, state, holds_lease=holds, repeated=True) is Reply.OK


def test_the_sql_of_each_transition_begins_with_its_line_of_the_table() -> None:
    folder = sql.__file__.replace("sql.py", "sql")
    for name in NAMES:
        with open(f"{folder}/{name}.sql") as file:
            lines = [next(file).removeprefix("--").strip() for _ in range(3)]
        assert "\n".join(lines) == header(name), name


def test_a_header_is_three_lines() -> None:
    assert header("expire").splitlines()[0] == "expire: completed | failed | cancelled -> nothing"
    assert header("enqueue").splitlines()[0] == "enqueue: nothing -> waiting | scheduled | blocked"


def test_an_answer_is_true_when_it_happened() -> None:
    assert [bool(reply) for reply in Reply] == [reply is Reply.OK for reply in Reply]
    assert CancelResult(reply=Reply.OK, state=State.WAITING)
    assert CancelResult(reply=Reply.OK, state=State.ACTIVE, signalled=True)
    successor_only = CancelResult(reply=Reply.OK, state=State.ACTIVE, successor=True)
    assert successor_only
    assert successor_only.runs_on
    assert not CancelResult(reply=Reply.WRONG_STATE, state=State.ACTIVE)
    assert not CancelResult(reply=Reply.MISSING)
    assert DeleteResult(reply=Reply.OK, chains=1)
    assert not DeleteResult(reply=Reply.WRONG_STATE)


def test_no_two_states_have_the_same_letter() -> None:
    assert set(LETTER) == set(State)
    assert all(len(letter.encode()) == 1 for letter in LETTER.values())
    assert len(set(LETTER.values())) == len(State), "a record would be read as one of another state"
    assert "-" not in LETTER.values(), "which an event of a run that is gone has"


def test_the_name_of_a_transition_is_that_of_nothing_else() -> None:
    states, worker_events = {str(state) for state in State}, set(WORKER_EVENTS)
    assert not set(TRANSITIONS) & (states | worker_events)
    assert not states & worker_events


def test_every_settlement_asks_for_another_transition_of_the_table() -> None:
    names = list(TRANSITION_OF.values())
    assert set(TRANSITION_OF) == set(get_args(Settlement))
    assert len(set(names)) == len(names)
    assert all(TRANSITIONS[name].fenced for name in names)
