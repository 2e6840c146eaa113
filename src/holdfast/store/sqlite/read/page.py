"""Pages of jobs: the runs that may match, by the index that has them, and the rows of those that do."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterator

from ....core.bound import GATHERED_AT_ONCE, LOOKED_AT_ONCE
from ....core.job import run_number
from ...contract import Filter, JobCount
from ...cursor import LAST
from ...pages import LookAhead, Source, behind, by_counters, counted, source_of, states_of
from ..tx import Row, Tx, Value

Candidates = Callable[[int, int], list[int]]
"""Gives the newest runs below one that may match, at most so many; fewer, when there are no more."""
COUNTED_IN = 5
"""A count looks at as many rows as so many pages."""


def matching(
    tx: Tx, which: Filter, limit: int, before: int = LAST, *, requeued: bool = True, most: int | None = LOOKED_AT_ONCE
) -> tuple[list[Row], int | None]:
    """Return the rows that match, newest first, and below which run to look on: `None` when there is nothing more.

    At most `most` rows are looked at, or all. Without `requeued`, runs that were requeued are left out.
    """
    found: list[Row] = []
    values = {**conditions(tx, which), "requeued": requeued}
    for runs, below in _looked_at(tx, which, limit, before, most):
        left = limit + 1 - len(found)
        found += tx.rows("job", "list_of", runs=json.dumps(runs), limit=left, **values)
        if len(found) > limit:
            return found[:limit], found[limit - 1]["run"]
        if below is None:
            return found, None
        before = below
    return found, before


def _looked_at(
    tx: Tx, which: Filter, limit: int, before: int, most: int | None
) -> Iterator[tuple[list[int], int | None]]:
    """Yield runs that may match, newest first, in growing parts, each with where the next begins."""
    candidates, look = _candidates(tx, which), LookAhead(limit, most)
    while size := look.next():
        runs = candidates(before, size)
        if len(runs) < size:
            yield runs, None
            return
        before = runs[-1]
        yield runs, before


def count(tx: Tx, which: Filter, most: int) -> JobCount:
    """Return how many jobs match, within bounds."""
    if by_counters(which):
        return JobCount(number=counted(which, _counts(tx)))
    number = 0
    values = {**conditions(tx, which), "requeued": True}
    for runs, below in _looked_at(tx, which, LOOKED_AT_ONCE // 2, LAST, COUNTED_IN * LOOKED_AT_ONCE):
        number += tx.value("job", "count_of", runs=json.dumps(runs), **values)
        if number >= most:
            return JobCount(number=most, more=number > most or below is not None)
        if below is None:
            return JobCount(number=number)
    return JobCount(number=number, more=True)


def _counts(tx: Tx) -> dict[tuple[str, str], int]:
    """Return the counters by queue and state."""
    return {(queue, state): count for queue, state, count in tx.run("queue", "counts")}


def _candidates(tx: Tx, which: Filter) -> Candidates:
    source = source_of(which, _counts(tx))
    if source == "signature":
        return _from(tx, "runs_of_signature", signature=which.signature)
    if source == "rare":
        return lambda before, most: _rare(tx, which, before, most)
    if source != "walk":
        gathered = _gathered(tx, which, source)
        if gathered is not None:
            return lambda before, most: gathered[max(0, (at := bisect_left(gathered, before)) - most) : at][::-1]
    return _from(tx, "runs")


def _from(tx: Tx, statement: str, **values: Value) -> Candidates:
    return lambda before, most: [
        run for (run,) in tx.run("job", statement, before=before, most=most, **values).fetchall()
    ]


def _rare(tx: Tx, which: Filter, before: int, most: int) -> list[int]:
    """Return runs in states that have an index in the order of runs, queue by queue."""
    found = [
        run
        for queue in queues_of(tx, which)
        for state in which.states
        for (run,) in tx.run("job", f"runs_{state}", queue=queue, before=before, most=most).fetchall()
    ]
    return sorted(found, reverse=True)[:most]


def queues_of(tx: Tx, which: Filter) -> list[str]:
    """Return the queue of a filter, or every queue."""
    return [which.queue] if which.queue is not None else [name for (name,) in tx.run("queue", "names").fetchall()]


def _gathered(tx: Tx, which: Filter, source: Source) -> list[int] | None:
    """Return all runs that an index has for a filter, oldest first; `None` when they are too many."""
    if source == "ids":
        found = tx.run("job", "runs_of_ids", ids=json.dumps(which.ids), queue=which.queue)
    elif source == "holders":
        found = tx.run("job", "runs_of_holders", holders=json.dumps(which.holders))
    elif source == "chain":
        found = tx.run("job", "runs_of_chain", chain=_chain(which))
    elif source == "prefix":
        return _first_of_each(tx, which, ("runs_of_prefix",))
    elif source == "queue":
        return _first_of_each(tx, which, ("runs_of_queue",))
    else:
        return _first_of_each(tx, which, {f"runs_{state}" for state in which.states})
    return sorted({run for (run,) in found})


def _first_of_each(tx: Tx, which: Filter, statements: set[str] | tuple[str, ...]) -> list[int] | None:
    runs: set[int] = set()
    most = GATHERED_AT_ONCE + 1
    prefix = which.id_prefix or ""
    for queue in queues_of(tx, which):
        for name in statements:
            values = {"queue": queue, "prefix": prefix, "behind": behind(prefix), "before": LAST, "most": most}
            runs |= {run for (run,) in tx.run("job", name, **values).fetchall()}
            if len(runs) >= most:
                return None
    return sorted(runs)


def _chain(which: Filter) -> int | None:
    return run_number(which.chain.run) if which.chain else None


def conditions(tx: Tx, which: Filter) -> dict[str, Value]:
    """Return a filter as the parameters of the statements that list jobs and chains."""
    states = states_of(which)
    return {
        "queue": which.queue,
        "states": json.dumps(states) if states else None,
        "task": which.task,
        "key": which.key,
        "ids": json.dumps(which.ids) if which.ids else None,
        "prefix": which.id_prefix or None,
        "size": len(which.id_prefix or ""),
        "signature": which.signature,
        "after": which.enqueued_after_ms,
        "until": which.enqueued_before_ms,
        "started_after": which.started_after_ms,
        "started_before": which.started_before_ms,
        "finished_after": which.finished_after_ms,
        "finished_before": which.finished_before_ms,
        "chain": _chain(which),
        "tag": which.tag,
        "now": tx.now,
    }
