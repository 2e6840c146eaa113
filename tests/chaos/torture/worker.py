"""A worker under torture: `python -m torture.worker`. Its heartbeats are in the ledger, as it sent them."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from typing import Any

os.environ["TORTURE_WORKER"] = str(os.getpid())  # its pool inherits it

from holdfast import HookEvent

from . import ledger
from .app import app, plan

log = logging.getLogger("torture")


def record(store: type[Any], method: str, letter: str) -> None:
    """What the store's method is asked, and answers well, is in the ledger, with the time at which it was asked."""
    original = getattr(store, method)

    async def recorded(self: Any, *args: Any) -> Any:
        at = ledger.now_us()
        answer = await original(self, *args)
        if not getattr(answer, "evicted", False):
            ledger.note(letter, os.getpid(), at=at)
        return answer

    setattr(store, method, recorded)


@app.on("retry")
@app.on("fail")
def tell(happening: HookEvent) -> None:
    """The log says what went wrong, when it was not what a handler raises on purpose."""
    if "Trouble" not in str(happening.detail):
        log.error("%s of %s/%s: %s", happening.name, happening.queue, happening.id, happening.detail)


async def main() -> None:
    record(type(app.store), "register", "S")
    record(type(app.store), "extend", "H")
    worker = app.worker(
        slots=plan.slots, lease=plan.lease, poll=0.5, drain=5, grace=1, pool=2, recycle_jobs=200, name=sys.argv[1]
    )
    await worker.run(signals=True)


if __name__ == "__main__":
    logging.basicConfig(level="INFO", format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    asyncio.run(main())
