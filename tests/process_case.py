"""Handlers in processes, as tests share them: the module of handlers on a fresh place, and a worker that runs it."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import servers

_numbers = itertools.count(1)


def url_of(store: str, folder: Path) -> str:
    """Return the URL of a fresh place in a store."""
    if store == "postgresql":
        return servers.postgres().url(f"process_{next(_numbers)}")
    if store == "redis":
        binary = servers.valkey_binary() or servers.redis_binary()
        assert binary is not None
        return f"{servers.shared(binary).url}?namespace=process_{next(_numbers)}_{os.getpid()}"
    return f"sqlite:///{folder}/jobs.db"


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


@pytest.fixture
def store() -> str:
    """Which store; tests that are about one ask for others by parameters."""
    return "sqlite"


@pytest.fixture
def tasks(tmp_path: Path, ledger: Path, store: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of handlers, on a fresh place."""
    monkeypatch.setenv("HOLDFAST_TEST_URL", url_of(store, tmp_path))
    monkeypatch.setenv("HOLDFAST_TEST_LEDGER", str(ledger))
    sys.modules.pop("process_tasks", None)
    return importlib.import_module("process_tasks")


every_store = pytest.mark.parametrize("store", ["sqlite", "redis", "postgresql"])


def is_there(pid: int) -> bool:
    """True while the process is there and not dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextlib.contextmanager
def worker_process(*options: str, app: str = "process_tasks:app") -> Iterator[subprocess.Popen[str]]:
    """`holdfast worker` on the handlers of the tests, in a process of its own."""
    command = [sys.executable, "-m", "holdfast", "worker", app, "--pool", "1", *options]
    process = subprocess.Popen(
        command, cwd=Path(__file__).with_name("tasks"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.communicate()
