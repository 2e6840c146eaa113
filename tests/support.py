"""What tests share: waiting for something to be true, workers in this process and in others."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

from holdfast import Holdfast, Worker
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


async def burst(app: Holdfast, *queues: str, **options: Any) -> Report:
    """Return the report of a worker that has done all there was."""
    return await asyncio.wait_for(app.worker(queues or None, **options).run(burst=True), PATIENCE * 2)


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
