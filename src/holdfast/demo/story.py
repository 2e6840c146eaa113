"""The story: what happens in the shop, in order."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from ..client import Handle
from ..core.job import JobRecord
from ..errors import HoldfastError, JobFailed
from .board import Board
from .ledger import ProducerBook
from .shop import app, charge_card, import_order, nightly_report, resize_photo, send_receipt
from .worker_processes import LEASE, DemoWorker, start_workers, stop_workers

WORKERS = ("worker-1", "worker-2", "worker-3")
REPORT = "report-2026-11-15"
ALBUM = 15
RECEIPTS = 12


class DemoSize(msgspec.Struct, frozen=True):
    """How much there is to do."""

    files: int = 12
    """One a second."""
    orders: int = 250
    """In each file."""


class TooSlow(HoldfastError):
    """The demo waited too long for something."""


class DemoStory:
    """One demo, from the first worker's start to the last one's end."""

    def __init__(self, folder: Path, size: DemoSize, board: Board) -> None:
        self.folder = folder
        self.size = size
        self.board = board
        self.book = ProducerBook()

    async def play(self) -> ProducerBook:
        """Play the whole story, and write the producer's book."""
        async with self._workers() as workers:
            await self._payments()
            await self._report()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._receipts())
                group.create_task(self._files(workers[1], group))
            await self._drained()
            await self._stopped(workers)
        self.book.save(self.folder)
        return self.book

    @asynccontextmanager
    async def _workers(self) -> AsyncIterator[list[DemoWorker]]:
        workers: list[DemoWorker] = []
        try:
            with self.board.step(f"start {len(WORKERS)} workers") as step:
                workers = self.board.workers = await start_workers(WORKERS, self.folder)
                await self._until(lambda: all(map(self.board.session_of, workers)), "every worker to register")
                pids = ", ".join(str(worker.pid) for worker in workers)
                step.done(f"processes {pids}; leases of {LEASE:g} s")
            yield workers
        finally:
            await stop_workers(workers)

    async def _payments(self) -> None:
        with self.board.step("call charge_card") as step:
            began = time.perf_counter()
            charge = await charge_card.options(job_id="charge-1").call("order-1", 4200, card="good")
            took = (time.perf_counter() - began) * 1000
            step.done(f"the answer for {charge.cents / 100:.2f} is {charge.code}, after {took:.0f} ms")
            self.book.ask("payments", "charge-1", "queued")
        with self.board.step("call it, card expired") as step:
            try:
                await charge_card.options(job_id="charge-2").call("order-2", 1900, card="expired")
            except JobFailed as error:
                step.done(f"JobFailed at once, not retried: {error.error and error.error.message}")
            self.book.ask("payments", "charge-2", "queued")

    async def _report(self) -> None:
        with self.board.step("nightly_report, 5 times") as step:
            task = nightly_report.options(job_id=REPORT)
            handles = await asyncio.gather(*(task.enqueue("2026-11-15") for _ in range(5)))
            self._ask(*handles)
            self.book.report = REPORT
            result = await handles[0].result()
            answers = Counter(handle.status for handle in handles)
            counts = ", ".join(f"{count} {status}" for status, count in answers.items())
            step.done(f"{counts}; one {result!r}")

    async def _receipts(self) -> None:
        with self.board.step("cancel a receipt") as step:
            handle = await send_receipt.options(job_id="receipt-late", delay=3600).enqueue("late@example.com")
            self._ask(handle)
            answer = await handle.cancel()
            step.done(f"it was {answer.state}, and never runs")
        with self.board.step(f"send {RECEIPTS} receipts") as step:
            handles = [
                await send_receipt.options(job_id=f"receipt-{number}").enqueue(f"customer-{number}@example.com")
                for number in range(RECEIPTS)
            ]
            self._ask(*handles)
            await asyncio.gather(*(handle.result() for handle in handles))
            counters = [(await handle.job()).counters for handle in handles]
            failures = sum(each.failures for each in counters)
            step.done(f"mail server down: {failures} failures, all retried, all sent")

    async def _files(self, victim: DemoWorker, group: asyncio.TaskGroup) -> None:
        """Import a file of orders each second, one of them twice; half-way, kill a worker."""
        total = self.size.files * self.size.orders
        with self.board.step(f"import {total:,} orders") as step:
            for number in range(self.size.files):
                await self._file(number)
                if number == self.size.files // 2:
                    group.create_task(self._kill(victim))
                await asyncio.sleep(1)
            await self._file(0)
            step.done(f"{self.size.files} files; one came twice, its {self.size.orders} orders were known")

    async def _file(self, number: int) -> None:
        lines = [(f"order-{number}-{line}", 100 + (number * 7919 + line * 104_729) % 9_900)
                 for line in range(self.size.orders)]  # fmt: skip
        counts = await import_order.enqueue_many(
            import_order.options(job_id=id).args(line, cents) for line, (id, cents) in enumerate(lines)
        )
        known = set(self.book.asked)
        self.book.cents += sum(cents for id, cents in lines if ("orders", id) not in known)
        self.book.asked += [("orders", id) for id, _ in lines]
        for status, count in msgspec.structs.asdict(counts).items():
            self.book.answers[status] = self.book.answers.get(status, 0) + count
        if ("photos", f"photo-{number}-0") not in known:
            for photo in range(ALBUM):
                name = f"photo-{number}-{photo}"
                self._ask(await resize_photo.options(job_id=name).enqueue(f"{name}.jpg", 256))

    async def _kill(self, victim: DemoWorker) -> None:
        """Kill a worker while it holds jobs; they are reaped when its lease has run out."""
        with self.board.step(f"kill {victim.name} (SIGKILL)") as step:
            session = self.board.session_of(victim)
            assert session is not None
            await self._until_holding(session.session.id)
            await victim.kill()
            held = [job for job in await self._active() if job.worker == session.session.id]
            self.book.killed = session.session.id
            self.book.held = [(job.queue, job.id, job.counters.attempts) for job in held]
            died = time.monotonic()
            queues = ", ".join(sorted({job.queue for job in held}))
            step.done(f"process {victim.pid} died with {len(held)} jobs in hand ({queues})")
        with self.board.step("recover its jobs") as step:
            for job in held:
                await app.client.wait(job.queue, job.id, job.run, 20)
            step.done(f"all {len(held)} done by other workers, {time.monotonic() - died:.1f} s later")

    async def _until_holding(self, session: str) -> None:
        """Wait until the worker has just begun with a photo, so that it surely holds it when it dies."""
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            now = await app.store.now_ms()
            held = [job for job in await self._active() if job.worker == session]
            if any(job.queue == "photos" and now - (job.started_at_ms or 0) < 150 for job in held):
                return
            await asyncio.sleep(0.01)

    async def _active(self) -> list[JobRecord]:
        return (await app.jobs(state="active", limit=1000)).jobs

    async def _drained(self) -> None:
        with self.board.step("drain") as step:
            await self._until(lambda: self.board.open == 0, "every job to end")
            step.done(f"{self.board.count('completed'):,} completed after {self.board.age:.1f} s")

    async def _stopped(self, workers: list[DemoWorker]) -> None:
        with self.board.step("stop the rest (SIGTERM)") as step:
            await stop_workers(workers)
            self.book.exits = {worker.name: worker.exit_code for worker in workers if not worker.killed}
            step.done("they drained and left")

    def _ask(self, *handles: Handle[Any]) -> None:
        for handle in handles:
            self.book.ask(handle.queue, handle.id, handle.status)

    async def _until(self, ready: Callable[[], bool], what: str, seconds: float = 25) -> None:
        deadline = time.monotonic() + seconds
        await self.board.refresh()
        while not ready():
            if time.monotonic() > deadline:
                raise TooSlow(f"waited {seconds:g} s for {what}")
            await asyncio.sleep(0.05)
            await self.board.refresh()
