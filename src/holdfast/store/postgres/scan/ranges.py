"""Which events lie between two positions, the same for every snapshot that reads them."""

from __future__ import annotations

import msgspec

from ....core.bound import MOST_PACKED
from ...scan import ScanPart
from .position import Late, Position, late_values

Value = str | int | float | bool | None
"""What a mark of a statement stands for."""
_UNPACKED = (
    "(SELECT p.*, r.seq AS last FROM (SELECT * FROM holdfast.event WHERE seq > %s::bigint AND seq < %s::bigint"
    " ORDER BY seq OFFSET 0) r CROSS JOIN LATERAL holdfast.unpacked(r) p) e"
)
"""The events of a range. A row has one, or those of a whole call; the order of `last` and `seq` is that of an index."""
_LISTED = "unnest(%s::text[], %s::text[], %s::bigint[]) AS o(first, last, read)"


class PostgresPart(ScanPart, frozen=True, kw_only=True):
    """Rows above `low`, up to `high`: numbers of events, or runs."""

    low: int = 0
    high: int = 0
    epoch: str = ""
    late: tuple[Late, ...] | None = None
    """Only these transactions, each behind what was read of it: they were late at the position before."""
    open: tuple[Late, ...] = ()
    """Not these transactions beyond what was read of them: they are late at the position after."""
    rows: int | None = None
    """How many there were when it was planned."""


def ranges(after: Position, upto: Position) -> list[PostgresPart]:
    """Return what lies between two positions: what was late at the first, and what came after it."""
    new = PostgresPart(low=after.number, high=upto.number, epoch=upto.epoch, open=upto.late)
    if not after.late:
        return [new]
    late = PostgresPart(low=after.whole, high=after.number, epoch=upto.epoch, open=upto.late, late=after.late)
    return [late, new]


def source(part: PostgresPart) -> tuple[str, list[Value]]:
    """Return where the events of a part come from, as SQL, and the values for its marks."""
    table = _UNPACKED
    values: list[Value] = [part.low, part.high + MOST_PACKED]
    if part.late is not None:
        table = f"{_UNPACKED} JOIN {_LISTED} ON e.seq > o.read AND e.xid BETWEEN o.first::xid8 AND o.last::xid8"
        values += late_values(part.late).values()
    within = "e.seq > %s::bigint AND e.seq <= %s::bigint"
    values += [part.low, part.high]
    if part.open:
        # Nearly all are older than the oldest of these.
        within += (
            f" AND (e.xid < %s::text::xid8 OR NOT EXISTS (SELECT 1 FROM {_LISTED}"
            " WHERE e.seq > o.read AND e.xid BETWEEN o.first::xid8 AND o.last::xid8))"
        )
        values += [str(min(each.first for each in part.open)), *late_values(part.open).values()]
    return f"{table} WHERE {within}", values


def narrowed(part: PostgresPart, low: int, high: int, rows: int) -> PostgresPart:
    """Return a share of a part."""
    return msgspec.structs.replace(part, low=low, high=high, rows=rows)
