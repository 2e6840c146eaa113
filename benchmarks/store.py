"""A fresh store for each measurement. A store with a server starts it here, on loopback, and stops it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from benchmarks.system import Place, System


def sqlite(folder: Path) -> AbstractContextManager[str]:
    """A path: the file is made by whoever opens it."""
    return nullcontext(str(folder / "jobs.db"))


STORES: dict[str, Callable[[Path], AbstractContextManager[str]]] = {"sqlite": sqlite}


@contextmanager
def fresh(system: System, jobs: int) -> Iterator[Place]:
    """An empty store of the system's kind, gone with its folder afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder,
        STORES[system.store](Path(folder)) as url,
    ):
        yield Place(url, Path(folder), jobs, system.variant)
