"""Every transition of a job: one table, and what a store must answer.

A transition has one name. That name is the store's method, the SQL or Lua file that does it, the
contract test, the event and the heading in the docs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from .state import EVERY, FINISHED, PENDING, UNFINISHED, State


class Reply(StrEnum):
    """What a store answers to a transition. It is true when the transition happened."""

    OK = "ok"
    MISSING = "missing"
    WRONG_STATE = "wrong_state"
    STALE = "stale"

    def __bool__(self) -> bool:
        return self is Reply.OK


@dataclass(frozen=True, slots=True)
class Transition:
    """One row of the table: from which states to which, under which guard, to what effect.

    An empty `source` means that no job need exist; an empty `target`, that the run is gone afterwards.
    """

    source: frozenset[State]
    target: tuple[State, ...]
    guard: str
    effects: str
    fenced: bool = False
    event: bool = True


def _from(*states: State) -> frozenset[State]:
    return frozenset(states)


_LEASE = "the caller holds the lease"

TRANSITIONS: dict[str, Transition] = {
    "enqueue": Transition(
        _from(),
        (State.WAITING, State.SCHEDULED, State.BLOCKED),
        "no run holds the id",
        "number the run, hold the id, append event, wake one worker",
    ),
    "update": Transition(
        PENDING,
        (State.WAITING, State.SCHEDULED, State.BLOCKED),
        "the run has not started; an active one gets a successor instead",
        "change payload, run_at and counters by the update flags, append event",
    ),
    "promote": Transition(
        _from(State.SCHEDULED),
        (State.WAITING,),
        "its run_at has come, or somebody asks for it now",
        "take its place in the queue, append event",
    ),
    "unblock": Transition(
        _from(State.BLOCKED),
        (State.WAITING, State.SCHEDULED),
        "its last open blocker is done",
        "raise run_at to now, append event, wake one worker",
    ),
    "claim": Transition(
        _from(State.WAITING),
        (State.ACTIVE,),
        "the queue's limits allow it, the worker has room, and a suspect no more company than it may have",
        "count an attempt, give the lease, append event",
    ),
    "extend": Transition(
        _from(State.ACTIVE),
        (State.ACTIVE,),
        "the session has not been reaped",
        "move the session's expiry",
        fenced=True,
        event=False,
    ),
    "progress": Transition(
        _from(State.ACTIVE),
        (State.ACTIVE,),
        _LEASE,
        "store progress and checkpoint, append at most one event a second",
        fenced=True,
    ),
    "complete": Transition(
        _from(State.ACTIVE),
        (State.COMPLETED,),
        _LEASE,
        "drop lease, store result, continue or end the chain, start the successor, append event, tell waiters",
        fenced=True,
    ),
    "retry": Transition(
        _from(State.ACTIVE),
        (State.SCHEDULED,),
        _LEASE,
        "drop lease, count the failure or timeout (at its limit: fail), back off, suspect it no longer, "
        "merge the successor, append event",
        fenced=True,
    ),
    "fail": Transition(
        UNFINISHED,
        (State.FAILED,),
        "the caller holds the lease, or a limit is reached at claim, reap or release, or a blocker failed, "
        "or its record cannot be read",
        "drop lease, store error, enqueue the fail handler, end the chain, start the successor, append event, "
        "tell waiters",
        fenced=True,
    ),
    "snooze": Transition(
        _from(State.ACTIVE),
        (State.SCHEDULED,),
        _LEASE,
        "drop lease, count the snooze (at its limit: fail), set run_at, suspect it no longer, merge the successor, "
        "append event",
        fenced=True,
    ),
    "release": Transition(
        _from(State.ACTIVE),
        (State.WAITING, State.SCHEDULED),
        _LEASE,
        "drop lease, count release, stall or none (at limit: fail; of a stall, only alone), keep its place, "
        "make the stalled suspect, merge the successor, append event",
        fenced=True,
    ),
    "cancel": Transition(
        PENDING,
        (State.CANCELLED,),
        "the run has not started; an active one is refused or signalled",
        "free the id, end the chain, drop the successor, append event, tell waiters",
    ),
    "reap": Transition(
        _from(State.ACTIVE),
        (State.WAITING,),
        "the holder's session has expired",
        "drop lease, count the stall (at its limit, if it was alone: fail), keep its place, make it suspect, "
        "merge the successor, append event",
    ),
    "requeue": Transition(
        FINISHED,
        (State.WAITING, State.SCHEDULED, State.BLOCKED),
        "no other run holds the id",
        "number a new run with fresh counters, append event, wake one worker",
    ),
    "expire": Transition(
        FINISHED,
        (),
        "its retention is over",
        "remove the run and everything that points to it, append event",
    ),
    "delete": Transition(
        EVERY,
        (),
        "somebody asks for it",
        "remove the run and everything that points to it, signal its handler, append event",
    ),
}

EXTERNAL_COMPLETE = UNFINISHED
"""`complete` from outside, with no lease, applies to any unfinished state."""


def judge(
    name: str, state: State | None, *, holds_lease: bool = False, repeated: bool = False, outside: bool = False
) -> Reply:
    """Say what a store must answer. The order of the checks is part of the contract.

    `state` is the run's state, `None` when there is no such run. `repeated` says that this very
    call, with the same lease token or request id, was answered `ok` before. `outside` is `complete` with no lease.
    """
    transition = TRANSITIONS[name]
    if repeated:
        return Reply.OK
    if outside:
        return Reply.MISSING if state is None else Reply.OK if state in EXTERNAL_COMPLETE else Reply.WRONG_STATE
    if not transition.source:
        return Reply.OK if state is None or state.finished else Reply.WRONG_STATE
    if state is None:
        return Reply.MISSING
    if transition.fenced and not holds_lease:
        return Reply.STALE
    return Reply.OK if state in transition.source else Reply.WRONG_STATE


def header(name: str) -> str:
    """Return the three lines with which the SQL or Lua of a transition begins (without comment marks)."""
    transition = TRANSITIONS[name]
    source = " | ".join(state for state in State if state in transition.source) or "nothing"
    target = " | ".join(transition.target) or "nothing"
    return "\n".join(
        [
            f"{name}: {source} -> {target}",
            f"guard: {transition.guard}",
            f"effects: {transition.effects}",
        ]
    )
