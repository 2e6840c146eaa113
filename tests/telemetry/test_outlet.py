"""The outlet of a log never waits for its reader, and loses nothing that it does not count."""

from __future__ import annotations

import contextlib
import io
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.telemetry import outlet
from holdfast.telemetry.outlet import Outlet


class Pipe:
    """A pipe whose reader reads when it is told to."""

    def __init__(self) -> None:
        self.read, write = os.pipe()
        self.stream = os.fdopen(write, "w")

    def all(self) -> str:
        """Return all that was written, once the writer has closed."""
        found = b""
        while more := os.read(self.read, 65536):
            found += more
        return found.decode()

    def close(self) -> None:
        self.stream.close()
        os.close(self.read)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    made.close()


def told(count: int) -> str:
    return f"dropped {count}\n"


def test_lines_for_a_slow_reader_wait_and_all_of_them_come(pipe: Pipe) -> None:
    made = Outlet(pipe.stream, told)
    lines = [f"line {number}\n" for number in range(20_000)]  # more than a pipe holds
    for line in lines:
        made.write(line)  # and this returns
    read = list[str]()
    reader = threading.Thread(target=lambda: read.append(pipe.all()))
    reader.start()
    made.flush(20)
    pipe.stream.close()
    reader.join()
    assert read == ["".join(lines)]


def test_lines_beyond_what_is_kept_are_dropped_and_counted(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlet, "MOST_KEPT", 10_000)
    made = Outlet(pipe.stream, told)
    total = 50_000
    for number in range(total):
        made.write(f"line {number}\n")
    read = list[str]()
    reader = threading.Thread(target=lambda: read.append(pipe.all()))
    reader.start()
    made.flush(20)
    pipe.stream.close()
    reader.join()
    lines = read[0].splitlines()
    dropped = [int(found[1]) for line in lines if (found := re.fullmatch(r"dropped (\d+)", line))]
    assert len(dropped) == 1
    assert sum(line.startswith("line ") for line in lines) + dropped[0] == total


def test_the_end_of_a_program_does_not_wait_for_a_reader_that_never_reads(pipe: Pipe) -> None:
    made = Outlet(pipe.stream, told)
    for _ in range(30):
        made.write("x" * 4000 + "\n")
    assert made.flush(0.01) is None  # it returns, though nothing was read
    os.set_blocking(pipe.read, False)
    while not made._idle.is_set():  # and the thread ends, once somebody does
        with contextlib.suppress(BlockingIOError):
            os.read(pipe.read, 65536)


def test_a_line_longer_than_a_pipe_takes_at_once_comes_whole(pipe: Pipe) -> None:
    made = Outlet(pipe.stream, told)
    long = "y" * 30_000 + "\n"
    made.write("first\n" + long)
    made.flush(20)
    pipe.stream.close()
    assert pipe.all() == "first\n" + long


def test_a_reader_that_is_gone_ends_nothing(pipe: Pipe) -> None:
    made = Outlet(pipe.stream, told)
    os.close(pipe.read)
    pipe.read, other = os.pipe()
    os.close(other)
    made.write("line\n")
    made.write("line\n")


def test_a_pipe_that_another_has_made_non_blocking_is_written_all_the_same(pipe: Pipe) -> None:
    os.set_blocking(pipe.stream.fileno(), False)
    made = Outlet(pipe.stream, told)
    lines = "".join(f"line {number}\n" for number in range(20_000))
    made.write(lines)
    read = list[str]()
    reader = threading.Thread(target=lambda: read.append(pipe.all()))
    reader.start()
    made.flush(20)
    pipe.stream.close()
    reader.join()
    assert read == [lines]


def test_files_and_streams_that_are_none_of_the_systems_are_written_at_once(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as file:
        Outlet(file, told).write("half \ud800\n")
        assert (tmp_path / "log").read_text() == "half \\ud800\n"
    stream = io.StringIO()
    Outlet(stream, told).write("line\n")
    assert stream.getvalue() == "line\n"


def test_an_empty_pipe_takes_many_lines_by_one_write_and_another_whole_lines(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: (sizes.append(len(data)), write(fd, data))[1])
    made = Outlet(pipe.stream, told)
    lines = "".join(f"line {number:05d}\n" for number in range(1000))
    made.write(lines)
    made.write(lines)  # now that the pipe has something in it
    monkeypatch.undo()
    pipe.stream.close()
    assert sizes[0] == len(lines) == sum(sizes[1:])
    assert all(size <= outlet.AT_ONCE and size % len("line 00000\n") == 0 for size in sizes[1:])
    assert pipe.all() == lines * 2
