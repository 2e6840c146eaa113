"""The app that worker processes and producers of `benchmarks.scale` import; a shape says which queues and keys."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.system import PAYLOAD
from holdfast import Holdfast

URL, SHAPE, COUNTS = "HOLDFAST_BENCH_URL", "HOLDFAST_BENCH_SHAPE", "HOLDFAST_BENCH_COUNTS"
"""Variables: where the store is, the name of the shape, and the folder in which processes count."""


@dataclass(frozen=True)
class Shape:
    """Over how many queues and keys the jobs are spread."""

    queues: int = 1
    keys: int = 0
    part: int = 1
    """So many times fewer jobs than for one queue: what is measured there is the way from queue to queue."""


SHAPES = {"one queue": Shape(), "1,000 queues": Shape(queues=1_000, part=10), "10,000 keys": Shape(keys=10_000)}


class Count:
    """Jobs that this process has done, in a file that the harness reads without asking anybody."""

    def __init__(self, folder: Path) -> None:
        path = folder / str(os.getpid())
        path.write_bytes(bytes(8))
        with path.open("r+b") as file:
            self._slot = memoryview(mmap.mmap(file.fileno(), 8)).cast("Q")

    def one(self) -> None:
        self._slot[0] += 1

    def add(self, jobs: int) -> None:
        self._slot[0] += jobs


def counted(folder: Path) -> int:
    """The jobs that all processes have done."""
    return sum(int.from_bytes(path.read_bytes(), "little") for path in folder.iterdir())


def made() -> tuple[Holdfast, list[Any]]:
    """The app, and a task for each queue."""
    app = Holdfast(os.environ[URL])
    made: list[Count] = []

    async def noop(data: str) -> None:
        if not made:
            made.append(Count(Path(os.environ[COUNTS])))
        made[0].one()

    queues = SHAPES[os.environ[SHAPE]].queues
    return app, [app.task(name=f"noop-{number}", queue=f"bench-{number}")(noop) for number in range(queues)]


def calls(tasks: list[Any], jobs: int, first: int = 0) -> Iterator[Any]:
    """So many calls, in turn over the queues and the keys of the shape."""
    keys = SHAPES[os.environ[SHAPE]].keys
    for number in range(first, first + jobs):
        task = tasks[number % len(tasks)]
        yield (task.options(key=f"key-{number % keys}") if keys else task).args(PAYLOAD)


def __getattr__(name: str) -> Any:
    """`app` is made when it is asked for, so that the harness may import the rest with no store."""
    if name == "app":
        return made()[0]
    raise AttributeError(name)
