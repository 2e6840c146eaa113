"""The counts of each queue, compared with the jobs that are there, and corrected."""

from __future__ import annotations

from ...rows import Miscount
from ..tx import Tx


def miscounts(tx: Tx) -> list[Miscount]:
    """Return the counts that differ from the jobs that are there."""
    return [Miscount(*row) for row in tx.run("queue", "miscounted").fetchall()]


def recount(tx: Tx) -> list[Miscount]:
    """Correct the counts; return those that were wrong."""
    wrong = miscounts(tx)
    if wrong:
        tx.run("queue", "uncount")
        tx.run("queue", "recount")
    return wrong
