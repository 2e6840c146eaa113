"""python -m benchmarks.third_party.harness CLONE: that harness itself, with Holdfast among its systems.

CLONE is a clone of hardbyte/postgresql-job-queue-benchmarking, of which nothing is changed: Holdfast is added to its
list of adapters while it runs. Its PostgreSQL comes from Docker; with `--own-server` it is one that is started here, on
the port that the harness expects, and Docker is not needed. What follows `--` goes to the harness's command `run`.

    python -m benchmarks.third_party.harness ../clone --own-server -- --scenario idle_in_tx_saturation --replicas 2
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from benchmarks.system import System

MANIFEST = Path(__file__).with_name("adapter.json")
ROOT = Path(__file__).resolve().parents[2]
MODULE = "benchmarks.third_party.harness"
PORT = 15555
"""On which the harness looks for its server."""
PACKAGES = ("psycopg[binary]", "matplotlib", "pandas", "numpy", "pydantic")
INNER = System(name="harness", script=MODULE, store="postgres", measures=(), packages=PACKAGES)
"""The harness's own process."""
OWN_SERVER, PYTHON = "HOLDFAST_BENCH_OWN_SERVER", "HOLDFAST_BENCH_PYTHON"
"""Variables for the inner process: whether Docker is left alone, and which Python runs the adapter."""


def main() -> None:
    """Start the server where that is wanted, and the harness in an environment of its own."""
    import click

    @click.command(help=__doc__)
    @click.argument("clone", type=click.Path(exists=True, file_okay=False, resolve_path=True))
    @click.option("--own-server", is_flag=True, help="Start a PostgreSQL here, in place of the one of Docker.")
    @click.argument("words", nargs=-1)
    def command(clone: str, own_server: bool, words: tuple[str, ...]) -> None:
        from benchmarks.compare.environment import command as command_of

        told = {PYTHON: sys.executable} | ({OWN_SERVER: "1"} if own_server else {})
        with _server() if own_server else nullcontext():
            done = subprocess.run(
                [*command_of(INNER), "inner", clone, *words], cwd=ROOT, env={**os.environ, **told}, check=False
            )
        sys.exit(done.returncode)

    command(prog_name="python -m benchmarks.third_party.harness")


@contextmanager
def _server() -> Iterator[None]:
    """A PostgreSQL as the harness knows it: its port, its role, all rights."""
    import psycopg

    sys.path.append(str(ROOT / "tests"))
    from servers import PostgresServer

    server = PostgresServer(("listen_addresses=127.0.0.1", "shared_buffers=256MB", "max_connections=400"))
    server.port = PORT
    server.start()
    try:
        with psycopg.connect(server.url().partition("?")[0], autocommit=True) as connection:
            connection.execute("CREATE ROLE bench SUPERUSER LOGIN PASSWORD 'bench'")
            connection.execute("CREATE DATABASE bench OWNER bench")
        yield
    finally:
        server.close()


def inner(clone: str, words: list[str]) -> None:
    """The harness, in its environment, with one system more."""
    sys.path.insert(0, clone)
    from bench_harness import adapters, orchestrator

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "adapter.json").write_text(MANIFEST.read_text())
        adapters.ADAPTERS["holdfast"] = adapters.AdapterEntry(
            bench_dir=Path(folder), builder=lambda skip: None, launcher=_launcher(adapters)
        )
        if os.environ.get(OWN_SERVER):
            for name in ("start_postgres", "stop_postgres", "_compose_stop_postgres", "_compose_start_postgres"):
                setattr(orchestrator, name, lambda image: None)
        sys.exit(orchestrator.main(["run", "--systems", "holdfast", *words]))


def _launcher(adapters: Any) -> Any:
    def launch(manifest: Any, overrides: dict[str, str]) -> Any:
        words = [os.environ[PYTHON], "-m", "benchmarks.third_party.adapter"]
        own = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        return adapters.LaunchSpec(argv=words, env={**own, **adapters._base_env(manifest, overrides)}, cwd=str(ROOT))

    return launch


if __name__ == "__main__":
    if sys.argv[1:2] == ["inner"]:
        inner(sys.argv[2], sys.argv[3:])
    else:
        main()
