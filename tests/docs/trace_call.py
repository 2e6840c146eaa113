"""The files that a call passes on its way to the result, traced on a real store.

`python tests/docs/architecture.py` prints them for each store, and with `--write` puts them into docs/architecture.md.
A caller and a worker run in one process, each with an app and a store of its own. A file counts as passed when one of
its lines runs between `call()` and its result. A frame that merely waits for an inner one does not count.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import servers

import holdfast
from holdfast import Holdfast, Task
from holdfast.worker import Worker

SOURCE = str(Path(holdfast.__file__).parent) + "/"
CALLER, WORKER, OTHER = "caller", "worker", "store's thread"
WARM_UP, CALLS = 5, 15


class Step(NamedTuple):
    """A file on the way: who was first to pass it, and in which function."""

    file: str
    who: str
    function: str


class Tracer:
    """The steps of each call, recorded while `recording` is true, in every thread that starts after `install`."""

    def __init__(self) -> None:
        self.recording = False
        self.calls: list[dict[str, Step]] = []
        self.detours: set[tuple[str, ...]] = set()
        self._names = {threading.get_ident(): CALLER}

    def install(self) -> None:
        threading.settrace(self._enter)
        sys.settrace(self._enter)

    def remove(self) -> None:
        threading.settrace(None)  # type: ignore[arg-type]
        sys.settrace(None)

    def name_this_thread(self, who: str) -> None:
        self._names[threading.get_ident()] = who

    async def record(self, call: Callable[[], Any]) -> None:
        """Add the steps of one call."""
        self.calls.append({})
        self.recording = True
        try:
            await call()
        finally:
            self.recording = False

    def _enter(self, frame: FrameType, event: str, argument: object) -> Any:
        if not frame.f_code.co_filename.startswith(SOURCE):
            return None
        if self.recording and (detour := _detour(frame)):
            self.detours.add(detour)
        return self._line

    def _line(self, frame: FrameType, event: str, argument: object) -> Any:
        if self.recording and event == "line":
            file = frame.f_code.co_filename.removeprefix(SOURCE)
            if file not in self.calls[-1]:
                who = self._names.get(threading.get_ident(), OTHER)
                self.calls[-1][file] = Step(file, who, frame.f_code.co_qualname)
        return self._line


def _detour(frame: FrameType) -> tuple[str, ...]:
    """Return the files by which a call comes back to its own file through two others or more, if it does."""
    files: list[str] = []
    at: FrameType | None = frame
    while at is not None:
        name = at.f_code.co_filename
        if name.startswith(SOURCE) and name != (files[-1] if files else None):
            files.append(name)
        if len(files) > 1 and name == files[0]:
            return tuple(file.removeprefix(SOURCE) for file in reversed(files)) if len(files) > 3 else ()
        at = at.f_back
    return ()


class Way(NamedTuple):
    """The files of several calls on one store."""

    steps: list[Step]
    """Of most calls, in the order of the call that has the most of them."""
    always: frozenset[str]
    ever: frozenset[str]
    detours: frozenset[tuple[str, ...]]
    """Calls that leave a file and come back to it through two others or more."""


def trace(url: str) -> Way:
    """Return the way of a call on a store."""
    tracer = Tracer()
    tracer.install()
    try:
        asyncio.run(_calls(url, tracer))
    finally:
        tracer.remove()
    counts = Counter(file for call in tracer.calls for file in call)
    most = {file for file, count in counts.items() if 2 * count > CALLS}
    typical = max(tracer.calls, key=lambda call: len(most & call.keys()))
    steps = [step for file, step in typical.items() if file in most]
    always = frozenset(file for file, count in counts.items() if count == CALLS)
    return Way(steps, always, frozenset(counts), frozenset(tracer.detours))


async def _calls(url: str, tracer: Tracer) -> None:
    app, double = _app(url)
    ready: asyncio.Future[Worker] = asyncio.get_running_loop().create_future()
    thread = threading.Thread(target=_work, args=(url, tracer, asyncio.get_running_loop(), ready))
    thread.start()
    worker = await ready
    try:
        async with app:
            for number in range(WARM_UP + CALLS):
                await asyncio.sleep(0.05)  # the worker has reported the job before, and waits for the next
                if number < WARM_UP:
                    assert await double.call(number) == 2 * number
                else:
                    await tracer.record(lambda number=number: double.call(number))
    finally:
        worker.stop()
        await asyncio.to_thread(thread.join)


def _app(url: str) -> tuple[Holdfast, Task[[int], int]]:
    app = Holdfast(url)

    @app.task(name="double")
    async def double(value: int) -> int:
        return 2 * value

    return app, double


def _work(url: str, tracer: Tracer, loop: asyncio.AbstractEventLoop, ready: asyncio.Future[Worker]) -> None:
    tracer.name_this_thread(WORKER)

    async def main() -> None:
        async with _app(url)[0] as app:
            worker = app.worker()
            loop.call_soon_threadsafe(ready.set_result, worker)
            await worker.run(signals=False)

    asyncio.run(main())


def stores(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and a fresh URL of each store that can run here."""
    yield "SQLite", f"sqlite:///{folder}/jobs.db"
    binary = servers.valkey_binary() or servers.redis_binary()
    if binary:
        yield "Redis", f"{servers.shared(binary).url}?namespace=trace"
    yield "PostgreSQL", servers.postgres().url("trace")
