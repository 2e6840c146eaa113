"""Where the jobs are: a file, or a server that belongs to the torture and can be killed, stopped and started again."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import servers

from .disk import Disk

STORES = ("sqlite", "valkey", "redis", "postgres")
PATIENCE = 60.0
HERE = Path(__file__).parent
PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


def die_with_parent() -> None:
    """This process ends with the one that started it: nothing outlives a torture, not even one that is killed."""
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Place:
    """A SQLite file. A server is one, too, with more that can happen to it."""

    port: int | None = None

    def __init__(self, disk: Disk, options: str, board: Path) -> None:
        self.disk = disk
        self._options = options
        self._board = board

    @property
    def steppable(self) -> bool:
        """Whether the store's clock can be set: SQLite's is the process's own."""
        return True

    def url(self, port: int | None) -> str:
        """Return the URL of the store, by the way that has this port."""
        return f"sqlite:///{self.disk.folder}/jobs.db?{self._options}"

    def start(self) -> None:
        """The store answers."""

    def mend(self) -> None:
        """The store is whole again after its disk was full, by whatever its operator has to do."""
        self.start()

    def close(self) -> None:
        """Nothing of it is left."""


class Server(Place):
    """A server process with a folder on the disk."""

    def __init__(self, disk: Disk, options: str, board: Path) -> None:
        super().__init__(disk, options, board)
        self.port = servers.free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self._shim = _shim(board.parent)

    @property
    def steppable(self) -> bool:
        return self._shim is not None

    def _user(self) -> dict[str, Any]:
        """Return as whom it runs: as whoever runs the torture."""
        return {}

    def _command(self) -> list[str]:
        raise NotImplementedError

    def _answers(self) -> bool:
        raise NotImplementedError

    def start(self) -> None:
        """The server answers; one that cannot start, for an earlier one has not quite gone, is started again."""
        deadline = time.monotonic() + PATIENCE
        while not (self.process and self.process.poll() is None and self._answers()):
            if time.monotonic() > deadline:
                raise AssertionError(f"{self._command()[0]} does not answer: {self._log.read_text()[-2000:]}")
            if self.process is None or self.process.poll() is not None:
                self._start()
            time.sleep(0.1)

    @property
    def _log(self) -> Path:
        return self._board.parent / "logs" / "server.log"

    def _start(self) -> None:
        shim = {"LD_PRELOAD": str(self._shim), "TORTURE_BOARD": str(self._board)} if self._shim else {}
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command(), stdout=log, stderr=log, env={**os.environ, **shim}, start_new_session=True,
                preexec_fn=die_with_parent, **self._user(),
            )  # fmt: skip

    def kill(self) -> None:
        """The server is gone, by kill -9."""
        self._signal(signal.SIGKILL)
        if self.process is not None:
            self.process.wait()

    def pause(self) -> None:
        """The server hangs: it keeps its connections, and answers nothing."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """The server goes on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        """All its processes get a signal. One that was waited for is gone, and its number may be somebody else's."""
        if self.process is not None and self.process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    def close(self) -> None:
        self.kill()


class Redis(Server):
    """Redis or Valkey with an append-only file, as the docs ask for."""

    def __init__(self, binary: str, disk: Disk, options: str, board: Path) -> None:
        super().__init__(disk, options, board)
        self._binary = binary

    def url(self, port: int | None) -> str:
        return f"redis://127.0.0.1:{port or self.port}?timeout=5&retry_for=2&{self._options}"

    def _command(self) -> list[str]:
        settings = {
            "port": self.port, "dir": self.disk.folder, "bind": "127.0.0.1", "save": "", "appendonly": "yes",
            "appendfsync": "everysec", "maxmemory-policy": "noeviction",
        }  # fmt: skip
        return [self._binary, *(word for name, value in settings.items() for word in (f"--{name}", str(value)))]

    def mend(self) -> None:
        """The append-only file is written anew: after a short write its end may be unreadable to the server itself."""
        import redis

        self.start()
        with redis.Redis(port=self.port or 0, socket_timeout=PATIENCE) as client:
            deadline = time.monotonic() + PATIENCE
            rewritten = False
            while not rewritten and time.monotonic() < deadline:
                with suppress(redis.ResponseError):  # one is under way already
                    client.bgrewriteaof()
                    rewritten = True
                time.sleep(0.1)
            while _rewriting(client) and time.monotonic() < deadline:
                time.sleep(0.1)

    def _answers(self) -> bool:
        import redis

        try:
            with redis.Redis(port=self.port or 0, socket_timeout=2) as client:
                return bool(client.ping())
        except redis.RedisError:
            return False


def _rewriting(client: Any) -> bool:
    told = client.info("persistence")
    return bool(told["aof_rewrite_in_progress"] or told["aof_rewrite_scheduled"])


class Postgres(Server):
    """PostgreSQL as it comes, but for its place."""

    def __init__(self, disk: Disk, options: str, board: Path) -> None:
        super().__init__(disk, options, board)
        if self._user():
            os.chown(disk.folder, servers.NOBODY, servers.NOBODY)
            os.chmod(board, 0o644)
        command = [self._program("initdb"), "-D", str(self._data), "-U", "holdfast", "-A", "trust", "-E", "UTF8"]
        subprocess.run([*command, "--locale=C"], check=True, capture_output=True, **self._user())

    def _program(self, name: str) -> str:
        return str(servers.newest_postgres() / "bin" / name)

    def _user(self) -> dict[str, Any]:
        """PostgreSQL refuses to run as root."""
        return {"user": servers.NOBODY, "group": servers.NOBODY} if os.geteuid() == 0 else {}

    @property
    def _data(self) -> Path:
        return self.disk.folder / "data"

    def url(self, port: int | None) -> str:
        return f"postgresql://holdfast@127.0.0.1:{port or self.port}/postgres?patience=3&{self._options}"

    def _command(self) -> list[str]:
        settings = ("listen_addresses=127.0.0.1", "max_wal_size=256MB", "max_connections=200")
        options = [word for setting in settings for word in ("-c", setting)]
        sockets = ["-k", str(self.disk.folder)]
        return [self._program("postgres"), "-D", str(self._data), "-p", str(self.port), *sockets, *options]

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(f"postgresql://holdfast@127.0.0.1:{self.port}/postgres", connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True


def _shim(folder: Path) -> Path | None:
    """Return what steps a server's clock, built here; `None` where there is no C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    made = folder / "clock.so"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", str(made), str(HERE / "clock.c")], check=True)
    return made


def make_place(store: str, disk: Disk, options: str, board: Path) -> Place | None:
    """Return the place for a store, or `None` where its server is not installed."""
    if store == "sqlite":
        return Place(disk, options, board)
    if store == "postgres":
        return Postgres(disk, options, board)
    binary = servers.valkey_binary() if store == "valkey" else servers.redis_binary()
    return Redis(binary, disk, options, board) if binary else None
