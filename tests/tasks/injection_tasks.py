"""Handlers that depend on resources, for each executor. What is opened and closed is written to the ledger."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal

from holdfast import Depends, Holdfast, Job, Retry, Sandbox

app = Holdfast(os.environ.get("HOLDFAST_TEST_URL", "memory://injection"))
SOON = Retry(failures=1, timeouts=1, initial=0)
EXECUTORS: tuple[Literal["inline", "thread", "process"], ...] = ("inline", "thread", "process")
broken: set[str] = set()


def note(what: str, id: str = "-") -> None:
    """The ledger has one line more, whole, whoever else writes."""
    file = os.open(os.environ["HOLDFAST_TEST_LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, f"{what} {id} {os.getpid()}\n".encode())
    finally:
        os.close(file)


class Pool:
    """Something that no payload could carry."""

    def __init__(self) -> None:
        self.pid = os.getpid()


@app.resource
async def pool() -> AsyncIterator[Pool]:
    note("open-pool")
    yield Pool()
    note("close-pool")


@app.resource
def region(db: Pool = Depends(pool)) -> str:
    """Returned, and there is nothing to close."""
    return f"region of {db.pid}"


@app.resource(scope="attempt")
def session(job: Job, db: Pool = Depends(pool)) -> Iterator[dict[str, Any]]:
    found = {"job": job.id, "pid": db.pid, "thread": threading.get_ident()}
    note("open-session", job.id)
    try:
        yield found
    except BaseException as error:
        note(f"undo-{type(error).__name__}", job.id)  # and swallows it, which must not make the job a success
    finally:
        assert threading.get_ident() == found["thread"]
        note("close-session", job.id)


@app.resource(scope="attempt")
async def client(whose: dict[str, Any] = Depends(session)) -> AsyncIterator[list[str]]:
    loop = asyncio.get_running_loop()
    note("open-client", whose["job"])
    yield [whose["job"]]
    await asyncio.sleep(0)
    assert asyncio.get_running_loop() is loop
    note("close-client", whose["job"])


@app.resource(scope="attempt")
def token(job: Job, own: dict[str, Any] = Depends(session)) -> str:
    return f"{own['job']}:{job.attempt}"


def seen(db: Pool, own: dict[str, Any], word: str, where: str) -> dict[str, Any]:
    return {
        "pids": sorted({os.getpid(), db.pid, own["pid"]}), "same": own is session(), "word": word, "where": where,
        "thread": own["thread"] == threading.get_ident(),
    }  # fmt: skip


def handler(
    how: str, db: Pool = Depends(pool), own: Any = Depends(session), *, word: str = Depends(token), job: Job
) -> Any:
    if how == "raise":
        raise ValueError("no good")
    return {**seen(db, own, word, region()), "job": job.id}


async def coroutine(
    job: Job, how: str, db: Pool = Depends(pool), http: list[str] = Depends(client), *, own: Any = Depends(session),
    word: str = Depends(token),
) -> Any:  # fmt: skip
    if how == "raise":
        raise ValueError("no good")
    if how == "wait":
        note("waits", job.id)
        await asyncio.Event().wait()
    return {**seen(db, own, word, region()), "job": job.id, "client": http}


def with_client(how: str, http: list[str] = Depends(client), db: Pool = Depends(pool)) -> Any:
    if how == "raise":
        raise ValueError("no good")
    return http


@app.task(executor="inline", retry=SOON, timeout=0.2)
async def in_loop(job: Job, how: str, http: list[str] = Depends(client)) -> Any:
    return await coroutine(job, how, pool(), http, own=session(), word="w")


@app.task(executor="process", retry=SOON)
def process_handler(
    how: str, db: Pool = Depends(pool), own: Any = Depends(session), *, word: str = Depends(token), job: Job
) -> Any:
    return handler(how, db, own, word=word, job=job)


@app.task(executor="process", retry=SOON)
async def process_coroutine(
    job: Job, how: str, db: Pool = Depends(pool), http: list[str] = Depends(client), *, own: Any = Depends(session),
    word: str = Depends(token),
) -> Any:  # fmt: skip
    return await coroutine(job, how, db, http, own=own, word=word)


@app.task(executor="process", retry=SOON)
def process_with_client(how: str, http: list[str] = Depends(client), db: Pool = Depends(pool)) -> Any:
    return with_client(how, http, db)


@app.resource(scope="attempt")
def folder() -> Iterator[str]:
    yield os.getcwd()


@app.task(executor="sandbox", sandbox=Sandbox(), queue="boxed", retry=SOON)
def boxed(where: str = Depends(folder)) -> list[str]:
    return [where, folder()]


@app.resource(scope="attempt")
def commit(job: Job) -> Iterator[None]:
    yield
    raise OSError(f"{job.id}: the commit failed")


@app.task(retry=SOON)
async def committed(to: str, unit: None = Depends(commit)) -> str:
    return to


inline = app.task(executor="inline", retry=SOON, name="inline")(coroutine)
thread = app.task(executor="thread", retry=SOON, name="thread")(handler)
thread_coroutine = app.task(executor="thread", retry=SOON, name="thread_coroutine")(coroutine)
thread_client = app.task(executor="thread", retry=SOON, name="thread_client")(with_client)
inline_def = app.task(executor="inline", retry=SOON, name="inline_def")(handler)
