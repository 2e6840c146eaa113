"""Pages of the jobs of one state, in the order of its index."""

from __future__ import annotations

import json

from ....core.bound import NO_INSTANT
from ....core.state import State
from ...contract import Filter
from ...pages import FIRST_PLACE, LookAhead, SortPlace
from ..tx import Row, Tx
from .page import conditions, queues_of


def placed(tx: Tx, which: Filter, state: State, limit: int, place: SortPlace) -> tuple[list[Row], SortPlace | None]:
    """Return the rows that match, and behind which place to look on: `None` when there is nothing more."""
    found: list[Row] = []
    values = {**conditions(tx, which), "requeued": True}
    look = LookAhead(limit, first=limit + 1)
    while size := look.next():
        places = _places(tx, which, state, place, size)
        runs = {abs(each.run): each for each in places}
        rows = tx.rows("job", "list_of", runs=json.dumps(list(runs)), limit=size, **values)
        found += sorted(rows, key=lambda row: runs[row["run"]], reverse=True)
        if len(found) > limit:
            return found[:limit], _place(state, found[limit - 1])
        if len(places) < size:
            return found, None
        place = places[-1]
    return found, place


def _place(state: State, row: Row) -> SortPlace:
    if state is State.COMPLETED:
        return SortPlace(NO_INSTANT if row["expires_at_ms"] is None else row["expires_at_ms"], row["run"])
    at, run = row["run_at_ms"], row["run"]
    return SortPlace(-at, -run) if state is State.SCHEDULED else SortPlace(at, run)


def _places(tx: Tx, which: Filter, state: State, below: SortPlace, most: int) -> list[SortPlace]:
    """Return the first places below one, at most so many; fewer, when there are no more."""
    of_queue = _PLACES[state]
    found = [each for queue in queues_of(tx, which) for each in of_queue(tx, queue, below, most)]
    return sorted(found, reverse=True)[:most]


def _completed(tx: Tx, queue: str, below: SortPlace, most: int) -> list[SortPlace]:
    found = _read(tx, "completed", queue, below, most) if below.at > NO_INSTANT else []
    if len(found) < most:
        run = below.run if below.at <= NO_INSTANT else FIRST_PLACE.run
        found += _read(tx, "unended", queue, SortPlace(NO_INSTANT, run), most - len(found))
    return found


def _scheduled(tx: Tx, queue: str, below: SortPlace, most: int) -> list[SortPlace]:
    return _read(tx, "scheduled", queue, below, most)


def _waiting(tx: Tx, queue: str, below: SortPlace, most: int) -> list[SortPlace]:
    """Return those without a key by their priorities, those with one, and suspects without one."""
    found = _read(tx, "with_key", queue, below, most) + _read(tx, "suspects", queue, below, most)
    for (priority,) in tx.run("placed", "plain_priorities", queue=queue).fetchall():
        found += _read(tx, "plain", queue, below, most, priority=priority)
    return found


def _read(tx: Tx, statement: str, queue: str, below: SortPlace, most: int, **values: int) -> list[SortPlace]:
    rows = tx.run("placed", statement, queue=queue, at=below.at, run=below.run, most=most, **values).fetchall()
    return [SortPlace(NO_INSTANT if at is None else at, run) for at, run in rows]


_PLACES = {State.COMPLETED: _completed, State.SCHEDULED: _scheduled, State.WAITING: _waiting}
