"""An app in a module of its own, as executors import it: written to a folder, under a name that no other test has."""

from __future__ import annotations

import importlib.util
import itertools
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

_numbers = itertools.count()
CODE = '''
import asyncio
import os
import signal
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from holdfast import Continued, Holdfast, Job, Permanent, Retry
from holdfast.codec import JsonCodec

URL = {url!r}
FOLDER = Path({folder!r})
app = Holdfast(URL)


@dataclass
class Quote:
    item: str
    cents: int
    tags: list[str]


class Deadly(JsonCodec):
    """Kills its process, once, at the row that the file `deadly` names."""

    name = "deadly"

    def encode(self, value, annotation, *, path=""):
        order = FOLDER / "deadly"
        if order.exists() and value["number"] == int(order.read_text()):
            order.rename(FOLDER / "killed")
            os.kill(os.getpid(), signal.SIGKILL)
        return super().encode(value, annotation, path=path)


@app.task(queue="quotes", retry=Retry(failures=1))
async def quote(item: str, number: int = 1) -> Quote:
    if item == "moon":
        raise Permanent("the moon is not for sale")
    return Quote(item, number * 100, [item.upper()])


@app.task(queue="numbers", codec=Deadly())
async def double(number: int) -> int:
    return number * 2


async def gate():
    """Return once the gate is open, which is when its pipe is gone."""
    try:
        pipe = os.open(FOLDER / "gate", os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return
    opened, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(pipe, opened.set)
    try:
        await opened.wait()
    finally:
        loop.remove_reader(pipe)
        os.close(pipe)


@app.task(queue="keyed", key_required=True)
async def keyed(item: str) -> str:
    return item


@app.task(queue="slow")
async def wait(number: int, job: Job) -> int:
    with (FOLDER / "started").open("a") as ledger:
        ledger.write(f"{{number}}\\n")
    waiting = [asyncio.create_task(each) for each in (gate(), job.signal.wait())]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        job.signal.check()
    finally:
        for each in waiting:
            each.cancel()
    return number


@app.task(queue="later")
async def last(number: int) -> str:
    if number == 3:
        raise Permanent("three is one too many")
    return f"{{number}}!"


@app.task(queue="chained")
async def first(number: int, job: Job) -> str | Continued[str]:
    return "none" if number == 0 else job.continue_with(last, number)


@app.task(queue="typed")
async def typed(at: datetime, share: float, quote: Quote | None = None) -> None: ...
'''


class Shop:
    """The module, its import path, and a store that is open in this process."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        self.file = folder / f"shop_{next(_numbers)}_{folder.parent.name.replace('-', '_')}.py"
        self.file.write_text(CODE.format(url=url, folder=str(folder)))
        os.mkfifo(folder / "gate")
        self._gate: int | None = os.open(folder / "gate", os.O_RDWR)
        self.target = f"{self.file}:app"
        self.module = self._load()
        self.app: Any = self.module.app

    def _load(self) -> ModuleType:
        spec = importlib.util.spec_from_file_location(self.file.stem, self.file)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[self.file.stem] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def __getattr__(self, name: str) -> Any:
        return getattr(self.module, name)

    def sync(self, awaitable: Any) -> Any:
        """Return what the coroutine returns."""
        return self.app.sync(awaitable)

    def jobs(self, queue: str) -> dict[str, Any]:
        """Return the jobs of a queue by id."""
        return {job.id: job for job in self.sync(self.app.jobs(queue=queue, limit=10_000)).jobs}

    def burst(self, *queues: str) -> Any:
        """Return the report of a worker that has done all there was."""
        return self.sync(self.app.worker(list(queues)).run(burst=True))

    def open_gate(self) -> None:
        """Handlers that wait go on, and those to come do not wait: whoever has the pipe open sees its end."""
        if self._gate is not None:
            (self.folder / "gate").unlink()
            os.close(self._gate)
            self._gate = None

    def close(self) -> None:
        """Nothing is open."""
        self.open_gate()
        self.app.sync.close()
        del sys.modules[self.file.stem]
