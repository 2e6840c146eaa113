"""The far side of a system's process: start it, hear its JSON lines, end it and all its children."""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from benchmarks.compare.environment import ROOT, command
from benchmarks.system import SERVER, SILENT, Place, System

PATIENCE = 240
"""Seconds until a measurement is given up, unless the command line says otherwise."""
HEARING = 60
"""Seconds until one awaited line is given up."""
PARTING = 10
"""Seconds between the request to end and the kill."""


ERROR = re.compile(r"[A-Za-z_][\w.]*: ")


class Failed(Exception):
    """A system's process ended badly or fell silent; the message is its last words."""

    word = "failed"
    """What the table says in place of a figure."""


class TimedOut(Failed):
    """It was given up."""

    word = "timed out"


def run(system: System, verb: str, place: Place, patience: float = PATIENCE) -> list[dict[str, Any]]:
    """Everything that one verb said, once it has ended well."""
    pipe = subprocess.PIPE
    with _ending(
        subprocess.Popen(_command(system, verb, place), stdout=pipe, stderr=pipe, **_options(place))
    ) as process:
        try:
            said, errors = process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            raise TimedOut(f"{system.name} {verb}: no end after {patience:g} s") from None
    if process.returncode:
        raise Failed(f"{system.name} {verb}: {_last_words(errors)}")
    return [json.loads(line) for line in said.splitlines() if line.startswith("{")]


class Talk:
    """A process that is talked with, line by line."""

    def __init__(self, name: str, process: subprocess.Popen[str]) -> None:
        self._name = name
        self._process = process
        self._lines: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def ask(self) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Failed(f"{self._name}: it has ended") from None

    def kill(self) -> None:
        """The process and its children are killed, with no chance to tidy up."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def hear(self, field: str) -> Any:
        """The next line that has this field."""
        while True:
            try:
                line = self._lines.get(timeout=HEARING)
            except queue.Empty:
                raise TimedOut(f"{self._name}: no {field!r} after {HEARING} s") from None
            if field in line:
                return line[field]
            if "ended" in line:
                raise Failed(f"{self._name}: it has ended, status {self._process.wait()}")

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self._lines.put(json.loads(line))
        self._lines.put({"ended": True})


@contextmanager
def talking(system: System, verb: str, place: Place, *, silent: bool = False) -> Iterator[Talk]:
    """A process runs the verb until the block ends. `silent`: its handlers do not say that they start."""
    pipe = subprocess.PIPE
    with (
        (place.folder / f"{verb}.log").open("w") as log,
        _ending(
            subprocess.Popen(
                _command(system, verb, place), stdin=pipe, stdout=pipe, stderr=log, **_options(place, silent)
            )
        ) as process,
    ):
        yield Talk(f"{system.name} {verb}", process)


def _options(place: Place, silent: bool = False) -> dict[str, Any]:
    """A session of its own, which knows the server's process."""
    known = {SERVER: str(place.server)} if place.server else {}
    known |= {SILENT: "1"} if silent else {}
    return {"cwd": ROOT, "text": True, "start_new_session": True, "env": {**os.environ, **known}}


@contextmanager
def _ending(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """Neither the process nor any child of it is left when the block ends."""
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=PARTING)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _command(system: System, verb: str, place: Place) -> list[str]:
    options = {"url": place.url, "folder": place.folder, "jobs": place.jobs, "variant": place.variant}
    return [*command(system), verb, *(f"--{name}={value}" for name, value in options.items())]


def _last_words(text: str) -> str:
    """The last line like `Name: message`, or the last of all: node ends with its version, psycopg with a caret."""
    lines = text.strip().splitlines() or ["it said nothing"]
    return next((line.strip() for line in reversed(lines) if ERROR.match(line)), lines[-1])
