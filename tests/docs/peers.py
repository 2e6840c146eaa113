"""Run the other side of the migration guides: `make peers`, or `python tests/docs/peers.py celery rq`.

Each queue is installed into an environment of its own under .bench/docs. The block that a page of docs/from marks as
theirs becomes shop.py (or shop.mjs); its worker is started on a real server, and the program must print what our side
prints. It is no part of `make test`: what others release must not fail our gate.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "docs")]

import servers  # noqa: E402
from blocks import blocks  # noqa: E402

HOMES = ROOT / ".bench" / "docs"
SAID = "sent to ann@example.com"


class Peer(NamedTuple):
    """How another queue is installed, prepared and started. Words of commands are those of its own environment."""

    packages: tuple[str, ...]
    worker: tuple[str, ...] = ()
    prepare: tuple[str, ...] = ()
    language: str = "python"


PEERS = {
    "celery": Peer(("celery[redis]",), ("celery", "-A", "shop", "worker", "--pool", "solo")),
    "rq": Peer(("rq",), ("rq", "worker", "mail")),
    "arq": Peer(("arq",), ("arq", "shop.WorkerSettings")),
    "dramatiq": Peer(("dramatiq[redis]",), ("dramatiq", "shop", "--processes", "1")),
    "huey": Peer(("huey", "redis"), ("huey_consumer", "shop.huey")),
    "procrastinate": Peer(
        ("procrastinate",),
        ("procrastinate", "-a", "shop.app", "worker"),
        ("procrastinate", "-a", "shop.app", "schema", "--apply"),
    ),
    "bullmq": Peer(("bullmq", "ioredis"), language="js"),
}


def main(names: list[str]) -> int:
    """Run the programs of these queues, or of all; return the exit code."""
    failed = [name for name in names or PEERS if not _runs(name)]
    print(f"failed: {', '.join(failed)}" if failed else "all of them run")
    return 1 if failed else 0


def _runs(name: str) -> bool:
    peer = PEERS[name]
    (block,) = [block for block in blocks(peer.language) if block.theirs == name]
    home = HOMES / name
    _install(peer, home)
    with TemporaryDirectory(dir=home) as folder:
        file = Path(folder) / ("shop.mjs" if peer.language == "js" else "shop.py")
        file.write_text(block.code)
        done = _run(peer, home, file)
    good = done.returncode == 0 and SAID in done.stdout
    print(f"{name}: {'ok' if good else f'{done.stdout}{done.stderr}'}")
    return good


def _install(peer: Peer, home: Path) -> None:
    if (home / ".installed").exists():
        return
    home.mkdir(parents=True, exist_ok=True)
    if peer.language == "js":
        subprocess.run(["npm", "install", "--silent", "--prefix", str(home), *peer.packages], check=True)
    else:
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        pip = [str(home / "bin" / "python"), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        subprocess.run([*pip, *peer.packages], check=True)
    (home / ".installed").touch()


def _run(peer: Peer, home: Path, file: Path) -> subprocess.CompletedProcess[str]:
    places = {"REDIS_URL": _redis_url(), "DATABASE_URL": servers.postgres().url().partition("?")[0]}
    path = {"PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(file.parent)}
    environment = {**os.environ, **places, **path}
    if peer.prepare:
        subprocess.run(peer.prepare, cwd=file.parent, env=environment, check=True)
    program = ["node" if peer.language == "js" else "python", file.name]
    with _worker(peer, file.parent, environment):
        return subprocess.run(program, cwd=file.parent, env=environment, capture_output=True, text=True, timeout=90)


def _redis_url() -> str:
    binary = servers.redis_binary() or servers.valkey_binary()
    assert binary is not None, "there is no Redis here: python tests/debian.py"
    return servers.shared(binary).url


@contextmanager
def _worker(peer: Peer, folder: Path, environment: dict[str, str]) -> Iterator[None]:
    if not peer.worker:
        yield
        return
    words = [*peer.worker, "--url", environment["REDIS_URL"]] if peer.worker[0] == "rq" else list(peer.worker)
    with (folder / "worker.log").open("w") as log:
        worker = subprocess.Popen(words, cwd=folder, env=environment, stdout=log, stderr=log)
        try:
            yield
        finally:
            worker.terminate()
            worker.wait(30)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
