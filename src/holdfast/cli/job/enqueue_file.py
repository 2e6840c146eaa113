"""`holdfast enqueue --from`: one job for each line of a file or of stdin."""

from __future__ import annotations

import io
import itertools
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import cast

import msgspec

from ...app.app import Holdfast
from ...app.bulk import Call, EnqueueCounts
from ...core.bound import ASKED_AT_ONCE
from ...errors import ConfigError
from ...json.form import JsonObject
from ..command import Halfway, Source
from ..interruption import command_again, interruptible
from ..output import console, json_out, say, say_note
from .row_calls import Given, RowCalls, call_of
from .rows import Format, Row, WrongRow, format_of, opened, rows_of

SHOWN = 10
"""How many wrong lines are told."""
KEPT_IN_MEMORY = 1 << 24
CallsOf = Callable[[Holdfast], RowCalls]
"""Returns what makes jobs of lines, once the app is there."""
FoundLine = tuple[int, Call[object] | WrongRow]


@dataclass(frozen=True)
class FileRequest:
    """What `--from` asks for."""

    name: str
    format: Format | None
    skip_bad: bool
    from_line: int
    id_prefix: str | None
    options: Given
    as_json: bool


@dataclass
class FileCounts:
    """What has become of the lines so far."""

    counts: EnqueueCounts
    last_line: int = 0
    skipped: int = 0

    def as_json(self) -> JsonObject:
        """Return the counts by name."""
        return {"lines": self.counts.total, **msgspec.to_builtins(self.counts), "skipped": self.skipped}

    def __str__(self) -> str:
        counts = {name: count for name, count in msgspec.to_builtins(self.counts).items() if count}
        told = ", ".join(f"{count:,} {name}" for name, count in counts.items()) or "nothing enqueued"
        return told + (f", {self.skipped:,} wrong line{'s' * (self.skipped > 1)} skipped" if self.skipped else "")


class JobFile:
    """The jobs of one file. It can be read twice, unless it is a stream whose wrong lines are skipped as they come."""

    def __init__(self, request: FileRequest, calls: RowCalls, stream: io.BufferedIOBase) -> None:
        self._request = request
        self._calls = calls
        self._stream = stream
        self._format = format_of(request.name, request.format)

    def each(self) -> Iterator[FoundLine]:
        """Yield the job of each line, or what is wrong with it, with its number."""
        request = self._request
        tabs = request.name.lower().endswith(".tsv")
        for row in rows_of(self._stream, self._format, tabs=tabs):
            if row.line < request.from_line:
                continue
            found = call_of(row, self._calls, request.options, request.id_prefix) if isinstance(row, Row) else row
            yield row.line, found

    def check(self) -> int:
        """Return the number of jobs, once every line is right; raise with those that are wrong."""
        wrong, count = list[WrongRow](), 0
        for _, found in self.each():
            count += 1
            if isinstance(found, WrongRow):
                wrong.append(found)
        self._stream.seek(0)
        if wrong:
            _tell(wrong)
            raise ConfigError(
                f"{self._request.name}: {len(wrong):,} of {count:,} lines are wrong, and nothing was enqueued: "
                "mend them, or leave them out with --skip-bad"
            )
        return count


def _tell(wrong: list[WrongRow]) -> None:
    for each in wrong[:SHOWN]:
        say(str(each), err=True)
    if len(wrong) > SHOWN:
        say(f"and {len(wrong) - SHOWN:,} more", err=True)


def enqueue_from(source: Source, request: FileRequest, calls_of: CallsOf) -> None:
    """Enqueue a job for each line. Without `skip_bad` every line is checked before the first is enqueued."""

    async def work(app: Holdfast) -> FileCounts:
        with ExitStack() as stack:
            stream = opened(request.name, cast(io.BufferedIOBase, sys.stdin.buffer))
            if request.name != "-":
                stack.enter_context(stream)
            calls = calls_of(app)
            if request.skip_bad:
                return await _send(app, request, JobFile(request, calls, stream), None)
            if request.name == "-":
                stream = stack.enter_context(_kept(stream))
            file = JobFile(request, calls, stream)
            return await _send(app, request, file, file.check())

    done = source.run(work, create=True)
    json_out(done.as_json()) if request.as_json else say(str(done))


def _kept(stream: io.BufferedIOBase) -> io.BufferedIOBase:
    """Return all of a stream as a file, which can be read twice."""
    kept = tempfile.SpooledTemporaryFile(max_size=KEPT_IN_MEMORY)  # noqa: SIM115 (the caller closes it)
    for part in iter(lambda: stream.read(1 << 16), b""):
        kept.write(part)
    kept.seek(0)
    return cast(io.BufferedIOBase, kept)


async def _send(app: Holdfast, request: FileRequest, file: JobFile, total: int | None) -> FileCounts:
    """Enqueue chunk by chunk, so that it is known at every moment up to which line the store has them."""
    from .progress import ProgressLine

    done = FileCounts(EnqueueCounts())
    with interruptible() as interrupted, ProgressLine(console(err=True), total) as meter:
        for chunk in _chunks(file.each()):
            if interrupted:
                raise _halfway(done, request)
            calls = [found for _, found in chunk if not isinstance(found, WrongRow)]
            _skip([found for _, found in chunk if isinstance(found, WrongRow)], done)
            done.counts = _sum(done.counts, await app.enqueue_many(calls))
            done.last_line = chunk[-1][0]
            meter.advance(len(chunk))
    return done


def _skip(wrong: list[WrongRow], done: FileCounts) -> None:
    for each in wrong[: max(0, SHOWN - done.skipped)]:
        say_note(f"skipped {each}")
    done.skipped += len(wrong)


def _chunks(found: Iterator[FoundLine]) -> Iterator[list[FoundLine]]:
    while chunk := list(itertools.islice(found, ASKED_AT_ONCE)):
        yield chunk


def _sum(one: EnqueueCounts, other: EnqueueCounts) -> EnqueueCounts:
    names = EnqueueCounts.__struct_fields__
    return EnqueueCounts(**{name: getattr(one, name) + getattr(other, name) for name in names})


def _halfway(done: FileCounts, request: FileRequest) -> Halfway:
    again = command_again("--from-line", str(done.last_line + 1), without=["--from-line"])
    how = f"go on with: {again}" if request.name != "-" else f"go on from line {done.last_line + 1} (--from-line)"
    return Halfway(f"interrupted after line {done.last_line}: {done}; {how}")
