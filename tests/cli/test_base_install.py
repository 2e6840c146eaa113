"""The base installation, without extras: apps and workers run, and the command says what it needs."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
SHOP = """
import asyncio
from holdfast import Holdfast

app = Holdfast("sqlite:///shop.db")

@app.task()
def greet(name: str) -> str:
    return f"hello {name}"

async def main() -> None:
    async with app:
        handle = await greet.enqueue("ann")
        await app.worker().run(burst=True)
        print(await handle.result())

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of packages that has Holdfast and its dependencies, without those of extras."""
    site = tmp_path / "site"
    site.mkdir()
    needed = [re.split(r"[<>=;]", word)[0] for word in PROJECT["dependencies"] if "win32" not in word]
    for name in ("holdfast", "holdfast_queue", *needed):
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        origin = Path(spec.origin)
        origin = origin.parent if spec.submodule_search_locations else origin
        (site / origin.name).symlink_to(origin)
    return site


def python(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a Python that has these packages and no others."""
    environment = {**os.environ, "PYTHONPATH": str(site), "PYTHONSAFEPATH": ""}
    return subprocess.run(
        [sys.executable, "-S", "-W", "error", *words],
        cwd=site.parent, env=environment, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_an_app_and_its_worker_run(site: Path) -> None:
    (site.parent / "shop.py").write_text(SHOP)
    done = python(site, "shop.py")
    assert (done.returncode, done.stdout) == (0, "hello ann\n"), done.stderr


@pytest.mark.parametrize("words", [("-m", "holdfast"), ("-c", "import holdfast_queue; holdfast_queue.main()")])
def test_the_command_says_what_to_install(words: tuple[str, ...], site: Path) -> None:
    done = python(site, *words)
    said = "holdfast: the command needs click, which is missing: pip install 'holdfast-queue[cli]'\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)


def test_worker_processes_say_what_to_install(site: Path) -> None:
    (site.parent / "shop.py").write_text(SHOP)
    done = python(site, "-c", "from holdfast import WorkerProcesses; WorkerProcesses('shop:app', 2)")
    said = "MissingExtra: a worker process needs click, which is missing: pip install 'holdfast-queue[cli]'"
    assert done.stderr.splitlines()[-1] == f"holdfast.errors.{said}"
