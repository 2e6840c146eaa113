"""A fresh store for each measurement. A store with a server starts it here, on loopback, and stops it."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from benchmarks.system import Place, System


def sqlite(folder: Path) -> AbstractContextManager[str]:
    """A path: the file is made by whoever opens it."""
    return nullcontext(str(folder / "jobs.db"))


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """A server of its own, as durable as PostgreSQL is by default."""
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    from servers import PostgresServer

    server = PostgresServer(("listen_addresses=127.0.0.1", "shared_buffers=256MB", "max_wal_size=4GB"))
    server.start()
    try:
        yield server.url().partition("?")[0]
    finally:
        server.close()


STORES: dict[str, Callable[[Path], AbstractContextManager[str]]] = {"sqlite": sqlite, "postgres": postgres}


@contextmanager
def fresh(system: System, jobs: int) -> Iterator[Place]:
    """An empty store of the system's kind, gone with its folder afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder,
        STORES[system.store](Path(folder)) as url,
    ):
        yield Place(url, Path(folder), jobs, system.variant)
