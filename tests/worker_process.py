"""A worker in a process of its own: `python worker_process.py URL LEDGER OPTIONS`.

The handlers write what they do into a ledger, one line each, which tests read. OPTIONS is a JSON object of
the worker's options, and `burst`. The report is printed at the end.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
from support import eventually, until

from holdfast import Holdfast, Job, Retry, Worker


def write(ledger: Path, what: str, id: str) -> None:
    """The ledger has one line more, whole, whoever else writes."""
    file = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, f"{what} {id} {os.getpid()}\n".encode())
    finally:
        os.close(file)


class NotingWorker(Worker):
    """A worker whose ledger tells that it was asked to stop."""

    ledger = Path()

    def stop(self, *, drain: bool = True, why: str = "stop") -> Any:
        write(self.ledger, "stop", self.name)
        return super().stop(drain=drain, why=why)


def make_app(url: str, ledger: Path) -> Holdfast:
    """Return the app of these tests: the same in the test and in its workers."""
    app = Holdfast(url)

    def note(what: str, job: Job) -> None:
        write(ledger, what, job.id)

    @app.task(retry=Retry(initial=0.01))
    async def touch(job: Job) -> int:
        note("start", job)
        return os.getpid()

    @app.task(retry=Retry(initial=0.01))
    async def hang(job: Job, release: str) -> str:
        """Runs until the file `release` is there."""
        note("start", job)
        await eventually(Path(release).exists)
        note("end", job)
        return "done"

    @app.task(retry=Retry(initial=0.01))
    def block(job: Job, release: str) -> str:
        """The same in a thread."""
        note("start", job)
        until(Path(release).exists)
        note("end", job)
        return "done"

    @app.task()
    async def alarm(job: Job, release: str = "") -> None:
        assert job.failed is not None
        write(ledger, "alarm", job.failed.id)

    @app.task(retry=Retry(stalls=1), on_failure=alarm)
    async def fragile(job: Job, release: str) -> None:
        """The same, and it may not even stall once."""
        note("start", job)
        await eventually(Path(release).exists)

    @app.task(retry=Retry(stalls=2), on_failure=alarm)
    async def kill_my_worker(job: Job) -> None:
        note("start", job)
        os.kill(os.getpid(), 9)

    return app


async def work(url: str, ledger: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the report of a worker that ran until it was stopped."""
    app = make_app(url, Path(ledger))
    burst = options.pop("burst", False)
    worker = NotingWorker(app, **options)
    worker.ledger = Path(ledger)
    report = await worker.run(burst=burst, signals=True)
    return msgspec.structs.asdict(report)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    print(json.dumps(asyncio.run(work(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))))
