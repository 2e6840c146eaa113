"""The ledger: what each process saw, a line each, in a file of its own that no store knows of.

A line is written in one call, so that no kill can tear it; it begins with a letter and a time in microseconds of the
clock that all processes of a host share (CLOCK_MONOTONIC) and no fault of ours can step.

    B  queue id run attempt worker note   a handler began          (note: what it needs to be checked, or -)
    T  queue id run attempt worker -      it is still at work
    E  queue id run attempt worker word   it ended: ok, or the name of what it raised
    P  queue id run attempt worker note   it began and ended at once
    S  worker                             a worker asked for a new session
    H  worker                             a worker sent a heartbeat, which was answered well
    A  queue id run task note             an enqueue was acknowledged (run 0: of many at once)
    C  queue id run                       a cancel was acknowledged before the handler began
    W  queue id run                       somebody waits for a result
    R  queue id run word                  and got an answer: ok, failed, wrong
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

_descriptor: int | None = None


def now_us() -> int:
    """The time, in microseconds."""
    return time.monotonic_ns() // 1000


def open_ledger(folder: Path, role: str) -> None:
    """This process writes to a ledger of its own. It is opened once: a handler needs no descriptor to write."""
    global _descriptor
    path = folder / "ledger" / f"{role}-{os.getpid()}"
    _descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)


def note(letter: str, *words: object, at: int | None = None) -> None:
    """One line is in the ledger."""
    note_all([(letter, *words)], at)


def note_all(lines: Iterable[tuple[object, ...]], at: int | None = None) -> None:
    """All lines are in the ledger, with one time."""
    assert _descriptor is not None, "open_ledger comes first"
    when = now_us() if at is None else at
    text = "".join(f"{letter} {when} {' '.join(map(str, words))}\n" for letter, *words in lines)
    os.write(_descriptor, text.encode())


def read(folder: Path) -> Iterator[list[str]]:
    """Yield the words of every line of every process, in no order across processes."""
    for path in sorted((folder / "ledger").iterdir()):
        with path.open() as lines:
            for line in lines:
                yield line.split()
