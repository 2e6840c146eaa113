"""The far side of a system's process: start it, hear its JSON lines, end it."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.environment import ROOT, command
from benchmarks.system import Place, System

PATIENCE = 900
"""Seconds until a measurement is given up."""
HEARING = 60
"""Seconds until one awaited line is given up."""


class Failed(Exception):
    """A system's process ended badly or fell silent; the message is its last words."""


def run(system: System, verb: str, place: Place) -> list[dict[str, Any]]:
    """Everything that one verb said, once it has ended well."""
    try:
        ended = subprocess.run(
            _command(system, verb, place), cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"{system.name} {verb}: no end after {PATIENCE} s") from None
    if ended.returncode:
        raise Failed(f"{system.name} {verb}: {_last_words(ended.stderr)}")
    return [json.loads(line) for line in ended.stdout.splitlines()]


class Talk:
    """A process that is talked with, line by line."""

    def __init__(self, name: str, process: subprocess.Popen[str]) -> None:
        self._name = name
        self._process = process
        self._lines: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def ask(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def hear(self, field: str) -> Any:
        """The next line that has this field."""
        while True:
            try:
                line = self._lines.get(timeout=HEARING)
            except queue.Empty:
                raise Failed(f"{self._name}: no {field!r} after {HEARING} s") from None
            if field in line:
                return line[field]

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(json.loads(line))


@contextmanager
def talking(system: System, verb: str, place: Place) -> Iterator[Talk]:
    """A process runs the verb until the block ends."""
    pipe = subprocess.PIPE
    with (place.folder / f"{verb}.log").open("w") as log:
        process = subprocess.Popen(
            _command(system, verb, place), cwd=ROOT, text=True, stdin=pipe, stdout=pipe, stderr=log
        )
        try:
            yield Talk(f"{system.name} {verb}", process)
        finally:
            _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _command(system: System, verb: str, place: Place) -> list[str]:
    options = {"url": place.url, "folder": place.folder, "jobs": place.jobs, "variant": place.variant}
    return [*command(system), verb, *(f"--{name}={value}" for name, value in options.items())]


def _last_words(text: str) -> str:
    return (text.strip().splitlines() or ["it said nothing"])[-1]
