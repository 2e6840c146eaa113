"""Pages of lists in stores with tables: from which index candidates come, and how many of them are looked at.

A list is in the order of runs, newest first. A source gives the runs that may match, in that order; the rows of these
are looked at. Where a source is an index in another order, it is read whole, if it is small. The jobs that wait, are
scheduled or are completed are too many for that: a list of one of these states is in the order of its own index.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, NamedTuple

from ..core.bound import GATHERED_AT_ONCE, LOOKED_AT_ONCE
from ..core.state import EVERY, FINISHED, State
from .contract import Filter

Source = Literal["ids", "holders", "chain", "signature", "prefix", "rare", "states", "queue", "walk"]
"""Few runs that the filter names; those with an error's signature; those with the beginning of an id; states in the
order of runs; states, or a queue, with few jobs; every run."""
RARE = frozenset({State.FAILED, State.BLOCKED, State.CANCELLED})
"""States that have an index in the order of runs."""
HAS_ERROR = tuple(state for state in State if state not in (State.COMPLETED, State.CANCELLED))
"""States in which a job failed, or may be failing."""
PLACED = frozenset({State.WAITING, State.SCHEDULED, State.COMPLETED})
"""States whose jobs are listed in the order of their index."""
NO_STATE = ("",)
FIRST_LOOK = 200
GROWTH = 4


def source_of(which: Filter, counts: Mapping[tuple[str, str], int]) -> Source:
    """Return where the candidates for a filter come from; `counts` are the jobs by queue and state."""
    if which.ids:
        return "ids"
    if which.holders:
        return "holders"
    if which.chain is not None:
        return "chain"
    if which.signature is not None:
        return "signature"
    if which.id_prefix:
        return "prefix"
    if which.states and RARE.issuperset(which.states):
        return "rare"
    if which.states and _total(which, counts, _indexed(which.states)) <= GATHERED_AT_ONCE:
        return "states"
    if which.queue is not None and _total(which, counts, EVERY) <= GATHERED_AT_ONCE:
        return "queue"
    return "walk"


class SortPlace(NamedTuple):
    """Where a job is in the list of its state: by an instant, then by its run. Lists go downwards.

    Those that are scheduled are listed upwards, the next one first: of theirs, both numbers are negative.
    """

    at: int
    run: int


FIRST_PLACE = SortPlace(2**62, 2**62)
"""Above every place."""


def placed_state(which: Filter) -> State | None:
    """Return the state in whose order a list is; `None` where it is in the order of runs."""
    (state, *others) = which.states or (None,)
    named = which.ids or which.holders or which.chain is not None or which.signature is not None or which.id_prefix
    return State(state) if state in PLACED and not others and not named else None


def states_of(which: Filter) -> tuple[str, ...]:
    """Return the states in which a job matches, or nothing for all of them."""
    if which.signature is None:
        return which.states
    return tuple(state for state in HAS_ERROR if not which.states or state in which.states) or NO_STATE


def _indexed(states: Collection[State]) -> set[State]:
    """Return the states whose jobs are read along: finished jobs share an index."""
    return {*states, *FINISHED} if State.COMPLETED in states else set(states)


def _total(which: Filter, counts: Mapping[tuple[str, str], int], states: Collection[State]) -> int:
    return sum(
        count for (queue, state), count in counts.items() if which.queue in (None, queue) and state in states and count
    )


def by_counters(which: Filter) -> bool:
    """True when counters know how many jobs match: the filter has a queue and states, and nothing else."""
    return which == Filter(queue=which.queue, states=which.states)


def counted(which: Filter, counts: Mapping[tuple[str, str], int]) -> int:
    """Return how many jobs counters have for a filter."""
    return max(0, _total(which, counts, which.states or EVERY))


class LookAhead:
    """How many candidates are looked at: few at first, then more, up to a bound."""

    def __init__(self, limit: int, most: int | None = LOOKED_AT_ONCE, *, first: int | None = None) -> None:
        self._size = first or max(FIRST_LOOK, 2 * limit)
        self._left = most

    def next(self) -> int:
        """Return how many are looked at next; 0 when it is enough."""
        size = self._size if self._left is None else min(self._size, self._left)
        self._size = min(self._size * GROWTH, LOOKED_AT_ONCE)
        if self._left is not None:
            self._left -= size
        return size


def behind(prefix: str) -> str:
    """Return a text behind all that begin with a prefix, where texts are compared by their bytes."""
    return prefix + "\U0010ffff" * 4
