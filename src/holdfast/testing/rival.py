"""What a rival process does in the races of the contract suite: it opens the store by its URL and joins a race.

It stands outside of the suite, so that a rival starts without pytest and Hypothesis.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable

from ..store import Store, open_store
from ..store.contract import Complete, DedupSpec, NewJob, ScheduleChange, Session

QUEUE = "race"
TICKS = 50


async def enqueue(store: Store, me: str) -> list[str]:
    """Return the status of each of fifty ids that every rival enqueues."""
    jobs = [NewJob(id=f"j{number}", task="t", payload=me.encode()) for number in range(50)]
    return [answer.status for job in jobs for answer in await store.enqueue(QUEUE, [job])]


async def dedup(store: Store, me: str) -> list[str]:
    """Return the status of each of fifty keys, every rival with ids of its own."""
    found: list[str] = []
    for number in range(50):
        spec = DedupSpec(key=f"k{number}")
        job = NewJob(id=f"{me}-{number}", task="t", payload=b"", dedup=spec)
        found += [answer.status for answer in await store.enqueue(QUEUE, [job])]
    return found


async def work(store: Store, me: str) -> list[str]:
    """Return the ids of the jobs that this rival ran, until none was left."""
    session = Session(id=me, name=me, host="here", pid=0, queues=(QUEUE,))
    await store.register(session)
    ran: list[str] = []
    settlements: list[Complete] = []
    while True:
        turn = await store.settle_and_claim(session, settlements, [QUEUE], 7)
        assert all(settled.reply == "ok" for settled in turn.settled)
        ran += [job.lease.id for job in turn.claimed]
        settlements = [Complete(job.lease, b"") for job in turn.claimed]
        if not turn.claimed:
            await store.leave(session)
            return ran


async def reap(store: Store, me: str) -> list[int]:
    """Return how many jobs this rival put back."""
    return [(await store.reap(QUEUE, limit=5)).returned for _ in range(10)]


async def fire(store: Store, me: str) -> list[int]:
    """Return the ticks that this rival fired, until none was left. Each is a millisecond after the one before."""
    fired: list[int] = []
    while rows := (await store.due([QUEUE])).rows:
        tick = int(rows[0].body)
        change = ScheduleChange(
            queue=QUEUE,
            name=rows[0].name,
            expected=rows[0].revision,
            revision=f"{me}-{tick}",
            next_at_ms=(rows[0].next_at_ms or 0) + 1 if tick + 1 < TICKS else None,
            body=b"%d" % (tick + 1),
        )
        job = NewJob(id=f"s/{tick}", task="t", payload=me.encode())
        if (await store.put_schedule(change, [job])).reply == "ok":
            fired.append(tick)
    return fired


RACES: dict[str, Callable[[Store, str], Awaitable[list[object]]]] = {
    "enqueue": enqueue,  # type: ignore[dict-item]
    "dedup": dedup,  # type: ignore[dict-item]
    "work": work,  # type: ignore[dict-item]
    "reap": reap,  # type: ignore[dict-item]
    "fire": fire,  # type: ignore[dict-item]
}


async def run(url: str, race: str, me: str) -> list[object]:
    """Return what one rival got."""
    store = open_store(url)
    await store.open()
    try:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.readline)  # the starting shot
        return await RACES[race](store, me)
    finally:
        await store.close()


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(run(*sys.argv[1:]))) + "\n")
