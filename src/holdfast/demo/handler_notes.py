"""The handlers' own notes of their runs, in plain files that the queue knows nothing of.

A line is written with one system call, so that a worker killed by SIGKILL leaves every line that it wrote.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from ..handler.job import Job

Word = Literal["begin", "end", "raise"]
FOLDER = "notes"


class HandlerNote(msgspec.Struct, frozen=True):
    """One line: a handler began, returned or raised."""

    word: Word
    queue: str
    id: str
    attempt: int

    @property
    def at(self) -> tuple[str, str, int]:
        """The attempt that it is about."""
        return self.queue, self.id, self.attempt


@contextmanager
def noted(job: Job, folder: Path) -> Iterator[None]:
    """Write down the beginning and the end of the block, however it ends."""
    _write(job, "begin", folder)
    try:
        yield
    except BaseException:
        _write(job, "raise", folder)
        raise
    _write(job, "end", folder)


def _write(job: Job, word: Word, folder: Path) -> None:
    os.write(_file(folder, os.getpid()), f"{word}\t{job.queue}\t{job.id}\t{job.attempt}\n".encode())


@cache
def _file(folder: Path, pid: int) -> int:
    path = folder / FOLDER
    path.mkdir(exist_ok=True)
    return os.open(path / f"{pid}.tsv", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def read_notes(folder: Path) -> list[HandlerNote]:
    """Return every note of every worker, in no order."""
    lines = [line for path in sorted((folder / FOLDER).glob("*.tsv")) for line in path.read_text().splitlines()]
    return [_parse(line) for line in lines]


def _parse(line: str) -> HandlerNote:
    word, queue, id, attempt = line.split("\t")
    return msgspec.convert({"word": word, "queue": queue, "id": id, "attempt": int(attempt)}, HandlerNote)
