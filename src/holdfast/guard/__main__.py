"""The guard: `python -m holdfast.guard PAGE LEASE WEDGED_AFTER`, started by a worker that runs handlers itself.

Native code that holds the worker's interpreter lock stops its heartbeats, as it stops every thread. The guard then
extends the lease in their place, for as long as a worker may be stuck anyway (`wedged_after`) and while it is not
stopped or gone. Until then it has imported next to nothing, and has nothing open.
"""

from __future__ import annotations

import os
import select
import sys

from .page import Page, now


def main() -> None:
    """Run until the worker closes the pipe, or is gone and so has closed it."""
    page, lease, wedged_after = Page(int(sys.argv[1]), writable=True), float(sys.argv[2]), float(sys.argv[3])
    order = sys.stdin.buffer.readline()
    while not select.select([sys.stdin], [], [], lease / 8)[0]:
        sent_at = now()
        if is_due(page, sent_at, lease, wedged_after) and is_running(os.getppid()) and _extended(order, lease):
            page.ends = max(page.ends, sent_at + lease)


def is_due(page: Page, at: float, lease: float, wedged_after: float) -> bool:
    """True when a heartbeat is missing, of those that come every third of a lease, and the loop moved not long ago."""
    return page.ends - at < lease / 2 and at - page.moved < wedged_after


def is_running(pid: int) -> bool:
    """True for a process that is there, and not stopped."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state = file.read().rpartition(b")")[2].split()[0]
    except OSError:
        return False  # it is gone, or this system does not tell: then nothing is extended
    return state not in (b"T", b"t", b"Z", b"X")


def _extended(order: bytes, lease: float) -> bool:
    """Return whether the store has extended the lease."""
    import asyncio

    import msgspec

    from ..store.contract import Session
    from ..store.url import open_store

    url, session = msgspec.json.decode(order, type=tuple[str, Session])

    async def extend() -> bool:
        store = open_store(url)
        await store.open()
        try:
            return not (await store.extend(session)).evicted
        finally:
            await store.close()

    try:
        return asyncio.run(asyncio.wait_for(extend(), lease))
    except Exception:  # a store that is away: the worker's own heartbeats say so, and the next look may find it
        return False


if __name__ == "__main__":
    main()
