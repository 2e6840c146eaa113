"""Room in the file that is no longer needed goes back to the disk, in small steps."""

from __future__ import annotations

from .tx import Tx

KEPT_FREE = 2048
"""Pages that stay free in any case, 16 MB: the next jobs use them again, which costs less than a longer file."""
KEPT_SHARE = 4
"""And one page in so many of the file."""
STEP = 256
"""Pages in one transaction, 2 MB."""


def give_back(tx: Tx) -> bool:
    """The file is shorter by a step, if it has much more room than it needs. True when there is more to give back.

    A file that was made without `auto_vacuum`, by another program, keeps its length and uses its room again.
    """
    free: int = tx.value("space", "free")
    spare = free - max(KEPT_FREE, int(tx.value("space", "pages")) // KEPT_SHARE)
    if spare <= 0 or tx.value("space", "vacuum") != 2:
        return False
    tx.run("space", "give_back_256").fetchall()
    return spare > STEP
