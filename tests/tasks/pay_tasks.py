"""Handlers that complete their jobs themselves, in processes, which import this module.

The store is that of HOLDFAST_TEST_URL, the handlers' own table that of HOLDFAST_TEST_TABLE.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from typing import Any

from holdfast import Holdfast, Job, Retry, Sandbox

app = Holdfast(os.environ.get("HOLDFAST_TEST_URL", "memory://pay"), retry=Retry(initial=0))
TABLE = os.environ.get("HOLDFAST_TEST_TABLE", "mine")
SESSION = os.environ.get("HOLDFAST_TEST_SESSION", "holdfast_session")


def insert(n: int) -> str:
    return f"INSERT INTO {TABLE} VALUES ({n})"


def spoil(how: str, connection: Any) -> None:
    if how in ("raise", "hide"):
        raise ValueError("no")
    if how == "roll back":
        connection.execute("ROLLBACK")
    if how == "die":
        os._exit(9)
    if how == "lose":
        connection.execute(f"DELETE FROM {SESSION}")


@app.task(executor="process")
def pay(job: Job, how: str) -> str:
    """What goes wrong does so at the first attempt."""
    with contextlib.suppress(ValueError if how == "hide" else ()), job.complete(f"paid by attempt {job.attempt}") as tx:
        tx.connection.execute(insert(job.attempt))
        if job.attempt == 1:
            spoil(how, tx.connection)
    if how == "raise after":
        raise ValueError("too late")
    if how == "die after":
        os._exit(9)
    return "not this"


@app.task(executor="process", size=10)
async def pay_in_loop(job: Job) -> str:
    async with job.prepare() as tx:
        await _done(tx.connection.execute(insert(-1)))
    async with job.complete("paid") as tx:
        await _done(tx.connection.execute(insert(1)))
    return "not this"


async def _done(outcome: Any) -> None:
    if not isinstance(outcome, sqlite3.Cursor):
        await outcome


@app.task(executor="process")
def pay_behind_a_lock(job: Job, path: str) -> None:
    lock = sqlite3.connect(path, isolation_level=None)
    if job.attempt == 1:
        lock.execute("BEGIN IMMEDIATE")
    try:
        with job.complete() as tx:
            tx.connection.execute(insert(job.attempt))
    finally:
        lock.close()


if app.store.url.startswith("postgres"):

    @app.task(executor="process", completion="atomic")
    def atomic(job: Job) -> str:
        with job.prepare() as tx:
            tx.connection.execute(insert(job.attempt))
        if job.attempt == 1:
            raise ValueError("between")
        if job.attempt == 2:
            return "paid"  # which is an error: nothing would be committed
        with job.complete("paid") as tx:
            tx.connection.execute(insert(10))
        return "not this"


def plain(payload: Any, job: Job) -> None:
    """No task, so that no app goes with it."""
    with job.complete():
        pass


@app.task(executor="sandbox", sandbox=Sandbox())
def boxed(job: Job) -> None:
    with job.complete():
        pass
