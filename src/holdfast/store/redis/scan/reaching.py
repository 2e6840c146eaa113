"""How far a limited batch reaches when some events are asked for: no index counts them, so they are looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .ranges import fair

LOOKED_AT_MOST = 200_000
"""So many events are looked at for one batch, however few of them are wanted: the next one goes on behind them."""
Wanted = Callable[[str, int, int], Sequence[int]]
"""Gives the sequences of a queue's wanted events, above one sequence and up to another."""


def reached(lows: Mapping[str, int], lasts: Mapping[str, int], limit: int, wanted: Wanted) -> dict[str, int]:
    """Return a sequence for each queue, above its low one, with at most `limit` wanted events before them all.

    The first look is at as many events as are wanted, and each further one at twice as many.
    """
    at = dict(lows)
    found: dict[str, list[int]] = {name: [] for name in lows}
    look, left = limit, max(limit, LOOKED_AT_MOST)
    while left > 0 and sum(map(len, found.values())) < limit:
        steps = fair({name: max(0, lasts[name] - at[name]) for name in at}, min(look, left))
        if not any(steps.values()):
            break
        for name, count in steps.items():
            found[name] += wanted(name, at[name], at[name] + count) if count else ()
            at[name] += count
        look, left = look * 2, left - sum(steps.values())
    taken = fair({name: len(each) for name, each in found.items()}, limit)
    return {name: at[name] if taken[name] == len(each) else each[taken[name]] - 1 for name, each in found.items()}
