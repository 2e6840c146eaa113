"""Jobs for `benchmarks.pages` and `benchmarks.web`: as many as are wanted, in every state, with a past."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.client import new_id
from holdfast.core.chain import BlockerRef, ChainRef, continuation_id
from holdfast.core.envelope import Envelope
from holdfast.core.job import ErrorRecord
from holdfast.store.contract import Claimed, Complete, Continuation, Failed, NewJob, Retried, Session, Settlement, Store

CHUNK = 1000
ROOM = 200
DAY_MS = 24 * 3_600_000
PAYLOAD = b'{"data":"' + b"x" * 100 + b'"}'
ERRORS = [ErrorRecord(type="KeyError", message=f"no {word}") for word in ("bread", "butter", "salt", "milk", "tea")]
TAGGED = Envelope(tags=("blue",)).encoded()


class Filling:
    """Brings jobs into a store."""

    def __init__(self, store: Store, jobs: int) -> None:
        self.store = store
        self.jobs = jobs
        queues = ("mail", "reports", "rare", "orders")
        self.session = Session(id=new_id(), name="pages", host="-", pid=0, queues=queues, lease_ms=36_000_000)

    async def fill(self) -> None:
        """Six of ten jobs are completed, one failed; two wait, and the rest is in other states."""
        await self.store.register(self.session)
        await self.add("rare", 200, task="seldom")
        await self.end("rare", lambda job: Complete(job.lease, b"null"))
        await self.add("orders", self.jobs // 100, task="pay")
        await self.end("orders", _two_steps)
        await self.add("mail", self.jobs * 5 // 10, task="send")
        await self.end("mail", lambda job: Complete(job.lease, b"null"))
        await self.add("reports", self.jobs // 10, keys=500)
        await self.end("reports", lambda job: Complete(job.lease, b"null"))
        await self.add("mail", self.jobs // 10, task="send")
        await self.end("mail", lambda job: Failed(job.lease, ERRORS[job.lease.run % 97 % len(ERRORS)]))
        await self.add("mail", self.jobs // 100, task="send")
        await self.end("mail", lambda job: Retried(job.lease, ERRORS[0], delay_ms=DAY_MS))
        (first,) = await self.add("mail", 1, delay_ms=DAY_MS)
        await self.add("mail", self.jobs // 200, blockers=(BlockerRef("mail", first.id),))
        for job in await self.add("mail", min(2000, self.jobs // 500), delay_ms=DAY_MS):
            await self.store.cancel("mail", job.id)
        await self.add("mail", self.jobs // 1000, envelope=TAGGED, task="send")
        await self.add("mail", self.jobs // 12, delay_ms=DAY_MS, task="send")
        await self.add("reports", self.jobs // 10, keys=1000)
        await self.add("mail", self.jobs // 10, task="send")
        await self.store.settle_and_claim(self.session, [], ("mail",), ROOM)

    async def add(self, queue: str, size: int, *, keys: int = 0, task: str = "make", **fields: Any) -> list[NewJob]:
        """So many more jobs are in the queue; return the last of them."""
        jobs: list[NewJob] = []
        for start in range(0, size, CHUNK):
            jobs = [
                NewJob(
                    id=f"{queue}-{new_id()}", task=task, payload=PAYLOAD,
                    result_ttl_ms=10 * DAY_MS, key=f"key-{number % keys}" if keys else None, **fields,
                )
                for number in range(start, min(size, start + CHUNK))
            ]  # fmt: skip
            await self.store.enqueue(queue, jobs)
        return jobs

    async def end(self, queue: str, how: Callable[[Claimed], Settlement]) -> None:
        """All that wait in the queue have ended."""
        ends: list[Settlement] = []
        while True:
            turn = await self.store.settle_and_claim(self.session, ends, (queue,), ROOM)
            if not turn.claimed and not ends:
                return
            ends = [how(job) for job in turn.claimed]


def _two_steps(job: Claimed) -> Complete:
    """Continue a job that is the first of its chain, and complete the second."""
    if job.position:
        return Complete(job.lease, b"null")
    chain = ChainRef(job.lease.queue, job.lease.id, job.lease.run)
    second = NewJob(id=continuation_id(chain, 1, chain.queue), task="ship", payload=PAYLOAD, result_ttl_ms=10 * DAY_MS)
    return Complete(job.lease, b"null", then=Continuation(chain.queue, second))
