"""Lines of several turns that are written together, and in their order."""

from __future__ import annotations

import asyncio
import io
import logging
from collections.abc import Iterator

import pytest
from support import eventually, run

from holdfast.telemetry import line_handler
from holdfast.telemetry.line_handler import LineHandler
from holdfast.telemetry.lines import format_of


class Stream(io.StringIO):
    """Keeps each write by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []

    def write(self, text: str) -> int:
        self.writes.append(text)
        return len(text)


@pytest.fixture
def stream() -> Iterator[Stream]:
    with Stream() as made:
        yield made


@pytest.fixture
def handler(stream: Stream) -> LineHandler:
    return LineHandler(format_of("human"), stream)


async def test_lines_are_written_at_once_and_those_that_follow_soon_together(
    handler: LineHandler, stream: Stream
) -> None:
    for number in range(4):
        handler.write(f"{number}\n", at_once=False)
    assert stream.writes == ["0\n"]
    await eventually(lambda: len(stream.writes) == 2)
    assert stream.writes == ["0\n", "1\n2\n3\n"]
    assert handler._timed_by is None


async def test_a_record_and_a_line_that_is_urgent_take_those_before_them_along(
    handler: LineHandler, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_handler, "JOINED", 60.0)
    handler.write("0\n", at_once=False)
    handler.write("1\n", at_once=False)
    handler.handle(logging.makeLogRecord({"msg": "a record", "levelname": "WARNING"}))
    handler.write("2\n", at_once=False)
    handler.write("urgent\n")
    handler.write("3\n", at_once=False)
    handler.flush()
    assert [text[-9:] for text in stream.writes] == ["0\n", "a record\n", "2\nurgent\n", "3\n"]
    assert stream.writes[1].startswith("1\n")


async def test_so_many_lines_wait_and_no_more(
    handler: LineHandler, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_handler, "JOINED", 60.0)
    monkeypatch.setattr(line_handler, "MOST_JOINED", 10)
    for number in range(5):
        handler.write(f"line {number}\n", at_once=False)
    assert stream.writes == ["line 0\n", "line 1\nline 2\n", "line 3\nline 4\n"]


def test_outside_of_an_event_loop_and_in_the_next_one_no_line_is_left_waiting(
    handler: LineHandler, stream: Stream
) -> None:
    async def two_lines() -> None:
        handler.write("a\n", at_once=False)
        handler.write("b\n", at_once=False)

    run(two_lines())  # whose loop is closed before the time is over
    handler.write("c\n", at_once=False)
    handler.write("d\n", at_once=False)
    assert stream.writes == ["a\n", "b\nc\n", "d\n"]

    async def two_more() -> None:
        await two_lines()
        await asyncio.sleep(0)
        await eventually(lambda: "".join(stream.writes).endswith("d\na\nb\n"))

    run(two_more())
