"""A small app in a folder of its own, and the command line on it: what the tests of the command line share."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support import PATIENCE

from holdfast import Holdfast
from holdfast.app.loader import load_app
from holdfast.cli import cli

SHOP = """
import asyncio
import dataclasses
import os
import signal
import pathlib
import threading

from holdfast import Holdfast, Job, Retry

app = Holdfast("sqlite:///jobs.db", timeout=60)
app.queue("mail", result_ttl=120)


@dataclasses.dataclass
class Order:
    sku: str
    count: int = 1


@app.task(queue="mail", retry=Retry(failures=1))
async def give_up(job: Job, to: str, n: int = 1) -> str:
    return "given up"


@app.task(queue="mail", retry=Retry(failures=2), on_failure=give_up)
async def send(to: str, n: int = 1) -> str:
    return f"{n} to {to}"


@app.task(queue="orders", priority=3)
def buy(order: Order) -> Order:
    return order


@app.task(queue="mail", retry=Retry(failures=1))
async def boom(job: Job, what: str = "[red]x") -> None:
    await job.progress(0.5, "half")
    raise ValueError(f"cannot {what}")


@app.task(queue="slow")
async def until_go(job: Job) -> str:
    os.mkfifo("go")
    print("running", flush=True)
    await asyncio.to_thread(pathlib.Path("go").read_text)
    return "gone"


@app.task(queue="slow")
async def until_told(job: Job) -> None:
    print("running", flush=True)
    print("told", await job.signal.wait(), flush=True)
    job.signal.check()


@app.task(queue="slow")
async def deaf(job: Job) -> None:
    print("running", flush=True)
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass


@app.task(queue="slow", executor="thread")
def deaf_thread(job: Job) -> None:
    print("running", flush=True)
    threading.Event().wait()


@app.task(queue="slow")
async def deaf_helper(job: Job) -> None:
    print("running", flush=True)
    await asyncio.to_thread(threading.Event().wait)


@app.task(queue="slow")
async def leaves_a_thread(job: Job) -> None:
    threading.Thread(target=threading.Event().wait, name="for ever").start()
    print("running", flush=True)
"""


async def _make_store(url: str) -> None:
    async with Holdfast(url):
        pass


class Shop:
    """The folder, and commands that run in this process or in one of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "shop.py").write_text(SHOP)
        asyncio.run(_make_store(f"sqlite:///{folder}/jobs.db"))

    @property
    def app(self) -> Holdfast:
        """The app as the commands of this process see it."""
        return load_app("shop.py:app")

    def run(self, *words: str, **options: Any) -> Result:
        """Return what a command did, in this process."""
        return CliRunner().invoke(cli, words, prog_name="holdfast", **options)

    def ok(self, *words: str) -> str:
        """Return what a command printed that ended well."""
        result = self.run(*words)
        assert result.exit_code == 0, (result.stderr, result.exception)
        return result.stdout

    def json(self, *words: str) -> Any:
        """Return what a command printed as JSON."""
        return json.loads(self.ok(*words, "--json"))

    def error(self, *words: str, code: int = 2) -> str:
        """Return the one line of an error."""
        result = self.run(*words)
        assert result.exit_code == code, (result.output, result.exception)
        lines = result.stderr.splitlines()
        assert len(lines) == 1, lines
        assert lines[0].startswith("holdfast: ")
        return lines[0].removeprefix("holdfast: ")

    def work(self) -> None:
        """Every job that can run has run."""
        asyncio.run(asyncio.wait_for(self.app.worker().run(burst=True), PATIENCE))


@contextlib.contextmanager
def in_shop(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A shop is in the current folder, named by HOLDFAST_APP; its modules are forgotten afterwards."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("HOLDFAST_APP", "shop.py:app")
    yield Shop(folder)
    for name, module in list(sys.modules.items()):
        if str(folder) in str(getattr(module, "__file__", None)):
            del sys.modules[name]


def _hear_interrupts() -> None:
    """A shell that runs the tests in the background has its children ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Process:
    """`holdfast ...` in a process of its own, whose lines can be waited for."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.errors = folder / f"stderr-{len(list(folder.glob('stderr-*')))}"
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "holdfast", *words],
                cwd=folder, stdout=subprocess.PIPE, stderr=errors, text=True,
                env={**os.environ, "HOLDFAST_APP": "shop:app"}, preexec_fn=_hear_interrupts,
            )  # fmt: skip

    def line(self, part: str) -> str:
        """Return the next line with this in it."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if part in line:
                return line.rstrip("\n")
        raise AssertionError(f"ended without {part!r}: {self.errors.read_text()}")

    def signal(self, number: int) -> None:
        """The process has got a signal."""
        self.process.send_signal(number)

    def end(self) -> tuple[int, str, str]:
        """Return the exit code, the rest of what it printed, and what it wrote to stderr."""
        rest, _ = self.process.communicate(timeout=PATIENCE * 2)
        return self.process.returncode, rest, self.errors.read_text()

    def close(self) -> None:
        """The process is gone."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
