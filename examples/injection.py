"""Handlers are given what they need by parameter; producer middleware stamps every job; nobody opens the app."""

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from contextvars import ContextVar

from holdfast import Depends, Holdfast, Job, OutgoingJob

app = Holdfast("sqlite:///injection.db")
tenant: ContextVar[str] = ContextVar("tenant", default="nobody")


@app.producer_middleware
def stamp(job: OutgoingJob) -> None:
    """Every job knows its tenant, whoever enqueues it, and tenants take turns."""
    job.headers["tenant"] = tenant.get()
    job.key = tenant.get()


@app.resource
def folder() -> Iterator[str]:
    """Open in each process that runs handlers."""
    yield "ledger.db"
    print("the folder is closed")


@app.resource(scope="attempt")
def ledger(job: Job, path: str = Depends(folder)) -> Iterator[sqlite3.Connection]:
    """A connection for each attempt, in the handler's own thread; committed when it ends well."""
    connection = sqlite3.connect(path)
    try:
        connection.execute("CREATE TABLE IF NOT EXISTS booking (job TEXT, tenant TEXT, amount INTEGER)")
        with connection:
            yield connection
    finally:
        connection.close()


@app.task
def book(amount: int, db: sqlite3.Connection = Depends(ledger), *, job: Job = Depends(Job)) -> int:
    """A task needs no parentheses, and its Job may stand anywhere."""
    db.execute("INSERT INTO booking VALUES (?, ?, ?)", (job.id, job.headers["tenant"], amount))
    found: int = db.execute("SELECT sum(amount) FROM booking WHERE tenant = ?", (job.headers["tenant"],)).fetchone()[0]
    if found > 100:
        raise ValueError(f"{job.headers['tenant']} has only 100, and wants {found}")
    return found


async def view(who: str, amount: int) -> str:
    """As a view of a web application would; it has an event loop of its own, and has opened nothing."""
    tenant.set(who)
    handle = await book.options(job_id=f"{who}-{amount}").enqueue(amount)
    return handle.status


def main() -> None:
    print([asyncio.run(view(who, amount)) for who, amount in (("acme", 30), ("bits", 70), ("acme", 40))])
    print("threads:", [each.name for each in threading.enumerate() if each.name == "holdfast-sync"])
    report = asyncio.run(app.worker(slots=1, log_jobs=False).run(burst=True))  # it opens the app where it runs
    print("completed", report.completed)
    print("acme has booked", app.sync(book.result("acme-40")))
    app.sync.close()


if __name__ == "__main__":
    main()
