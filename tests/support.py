"""What tests share: waiting for something to be true, workers in this process and in others."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from holdfast import Holdfast, Worker
from holdfast.store.contract import Session
from holdfast.worker import Report

PATIENCE = 20.0
PROCESS = Path(__file__).with_name("worker_process.py")


async def eventually(check: Callable[[], Any], what: str = "", patience: float = PATIENCE) -> Any:
    """Return what the check returns, once that is true. It may be a coroutine function."""
    deadline = time.monotonic() + patience
    while True:
        value = check()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"never came true within {patience:g} s: {what or inspect.getsource(check).strip()}")
        await asyncio.sleep(0.005)


def until(check: Callable[[], Any], what: str = "", patience: float = PATIENCE) -> Any:
    """Return what the check returns, once that is true: `eventually` where no loop runs."""
    deadline = time.monotonic() + patience
    while not (value := check()):
        if time.monotonic() > deadline:
            raise AssertionError(f"never came true within {patience:g} s: {what or inspect.getsource(check).strip()}")
        time.sleep(0.005)
    return value


def run(coroutine: Any) -> Any:
    """Return what a coroutine returns, from a test that is no coroutine itself."""
    return asyncio.run(asyncio.wait_for(coroutine, PATIENCE * 3))


class Running:
    """A worker that runs in this loop, and its report once it has ended."""

    def __init__(self, worker: Worker, **options: Any) -> None:
        self.worker = worker
        self.task: asyncio.Task[Report] = asyncio.create_task(worker.run(**options))

    async def end(self) -> Report:
        """Return the worker's report; it has been told to stop."""
        self.worker.stop()
        return await asyncio.wait_for(asyncio.shield(self.task), PATIENCE)


@contextlib.asynccontextmanager
async def working(app: Holdfast, *queues: str, **options: Any) -> AsyncIterator[Running]:
    """The app is open and a worker runs; both end with the block."""
    async with app:
        running = Running(app.worker(queues or None, **{"drain": 5, "grace": 0.2, **options}))
        await eventually(lambda: running.task.done() or running.worker.healthy, "the worker runs")
        try:
            yield running
        finally:
            if not running.task.done():
                await running.end()
            await running.task


def recorded_pauses(running: Running) -> list[float]:
    """Return the list of the pauses, in seconds, that the worker makes from now on after its store failed turns."""
    pauses: list[float] = []

    class Recorded:
        async def wait(self, seconds: float) -> bool:
            pauses.append(seconds)
            return await alarm.wait(seconds)

    assert running.worker._run is not None
    recovery = running.worker._run.parts.recovery
    alarm, recovery._alarm = recovery._alarm, Recorded()  # type: ignore[assignment]
    return pauses


async def burst(app: Holdfast, *queues: str, **options: Any) -> Report:
    """Return the report of a worker that has done all there was."""
    return await asyncio.wait_for(app.worker(queues or None, **options).run(burst=True), PATIENCE * 2)


async def declare_dead(app: Holdfast) -> None:
    """The only worker, which holds a job, has lost it."""
    await _reap_all(app, app.store.leave)


async def evict(app: Holdfast) -> None:
    """Every worker of the store is declared dead, as if it had not been heard for longer than its lease."""

    async def expire(session: Session) -> None:
        await app.store.database.write(  # type: ignore[attr-defined]
            lambda tx: tx.run("session", "expire_now", session=session.id, now=tx.now)
        )

    await _reap_all(app, expire)


async def _reap_all(app: Holdfast, expire: Callable[[Session], Awaitable[object]]) -> None:
    """Reap the sessions of this moment. A heartbeat of one in between counts: then it is done once more."""
    ids = {info.session.id for info in await app.workers()}
    assert ids, "there is no worker"

    async def are_gone() -> bool:
        left = [info.session for info in await app.workers() if info.session.id in ids]
        for session in left:
            await expire(session)
            for queue in session.queues:
                await app.store.reap(queue)
        return not left

    await eventually(are_gone)


async def transitions(app: Holdfast, id: str) -> list[str]:
    """Return the names of a job's events, in order."""
    return [event.transition async for event in app.events() if event.id == id]


class WorkerProcess:
    """`worker_process.py` in a process of its own, and the ledger that its handlers write."""

    def __init__(self, url: str, ledger: Path, **options: Any) -> None:
        arguments = [sys.executable, str(PROCESS), url, str(ledger), json.dumps(options)]
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.pid = self.process.pid

    def signal(self, number: int) -> None:
        """The process has got a signal."""
        self.process.send_signal(number)

    async def end(self) -> dict[str, Any]:
        """Return the report that the process printed when it ended well."""
        out, err = await asyncio.to_thread(self.process.communicate, timeout=PATIENCE * 2)
        assert self.process.returncode == 0, err
        report: dict[str, Any] = json.loads(out.splitlines()[-1])
        report["log"] = err
        return report

    def close(self) -> None:
        """The process is gone."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


@contextlib.contextmanager
def processes(*workers: WorkerProcess) -> Iterator[None]:
    """No process outlives the block."""
    try:
        yield
    finally:
        for worker in workers:
            worker.close()


def ledger_lines(ledger: Path, *whats: str) -> list[tuple[str, str, int]]:
    """Return what handlers wrote: (what, id, pid). Without `whats`, their starts and ends."""
    if not ledger.exists():
        return []
    lines = [line.split() for line in ledger.read_text().splitlines()]
    return [(what, id, int(pid)) for what, id, pid in lines if what in (whats or ("start", "end"))]


class Gate:
    """A pipe with a name, at which handlers in other processes wait: to pass it once it is open, or for a byte each."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self._path = path
        self._fd = os.open(path, os.O_RDWR)

    def __str__(self) -> str:
        return str(self._path)

    def open(self, count: int = 1) -> None:
        """Whoever only looks may pass, now and later; or so many take a byte each."""
        os.write(self._fd, b"x" * count)

    def close(self) -> None:
        """Nobody waits there any more."""
        os.close(self._fd)


class Flaky:
    """A store whose calls go wrong when told to: `lose` drops the reply, `refuse` the call itself.

    Each takes the name of a method, the error, and for how many calls.
    """

    def __init__(self, store: Any) -> None:
        self._store = store
        self._plans: dict[str, list[tuple[str, Exception]]] = {}
        self.calls: list[str] = []

    def lose(self, method: str, error: Exception, times: int = 1) -> None:
        """The next calls do their work, and answer with the error."""
        self._plans.setdefault(method, []).extend([("lose", error)] * times)

    def refuse(self, method: str, error: Exception, times: int = 1) -> None:
        """The next calls do nothing, and answer with the error."""
        self._plans.setdefault(method, []).extend([("refuse", error)] * times)

    def left(self, method: str) -> int:
        """Return how many calls will still go wrong."""
        return len(self._plans.get(method, ()))

    def __getattr__(self, name: str) -> Any:
        target = getattr(self._store, name)
        if not inspect.iscoroutinefunction(target):
            return target

        async def call(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(name)
            plan = self._plans[name].pop(0) if self._plans.get(name) else None
            if plan is not None and plan[0] == "refuse":
                raise plan[1]
            result = await target(*args, **kwargs)
            if plan is not None:
                raise plan[1]
            return result

        return call


async def postgres_value(store: Any, statement: str, *, repeatable: bool = True) -> Any:
    """Return what one statement of a PostgreSQL store finds, in whose own schema its names are."""
    rows = await store.caller.rows(store.caller.named(statement), (), repeatable=repeatable)
    return rows[0][0]
