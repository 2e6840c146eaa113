"""The lines of a file of jobs: JSON lines, or CSV with a header."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from ...errors import ConfigError
from ...json.decode import decode_json

Format = Literal["jsonl", "csv"]
ENDINGS: dict[str, Format] = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".tsv": "csv",
}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One job of a file: its line, and what stands there. Texts of CSV are not read yet."""

    line: int
    value: Any
    are_texts: bool = False


class WrongRow(ConfigError):
    """A line that is no job."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line


def format_of(name: str, given: Format | None) -> Format:
    """Return the format that is given, or that the ending of the name says; JSON lines for stdin."""
    if given is not None or name == "-":
        return given or "jsonl"
    ending = Path(name).suffix.lower()
    if ending not in ENDINGS:
        raise ConfigError(f"--from={name!r}: say what is in it, --format jsonl or --format csv")
    return ENDINGS[ending]


def rows_of(lines: Iterable[bytes], format: Format, *, tabs: bool = False) -> Iterator[Row | WrongRow]:
    """Yield what stands on each line that is not empty; a line that cannot be read is yielded as its error."""
    return _json_rows(lines) if format == "jsonl" else _csv_rows(lines, "\t" if tabs else ",")


def _json_rows(lines: Iterable[bytes]) -> Iterator[Row | WrongRow]:
    for number, line in enumerate(lines, 1):
        text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        if not text.strip():
            continue
        try:
            yield Row(number, decode_json(text))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            yield WrongRow(number, f"it is not JSON: {error}")


def _csv_rows(lines: Iterable[bytes], delimiter: str) -> Iterator[Row | WrongRow]:
    reader = csv.reader(_texts(lines), delimiter=delimiter, strict=True)
    names: list[str] | None = None
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            yield WrongRow(line, f"it is not CSV: {error}")
            continue
        if cells is None:
            return
        if names is None:
            names = _header(cells)
        elif not any(cells):
            continue
        elif len(cells) != len(names):
            yield WrongRow(line, f"it has {len(cells)} cells, and the first line {len(names)}")
        else:
            yield Row(line, dict(zip(names, cells, strict=True)), are_texts=True)


def _header(cells: list[str]) -> list[str]:
    names = [cell.strip() for cell in cells]
    if "" in names or len(set(names)) != len(names):
        raise WrongRow(1, f"the first line names the columns, each once: {', '.join(names) or 'it is empty'}")
    return names


def _texts(lines: Iterable[bytes]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise WrongRow(number, "it is not UTF-8") from None


def opened(name: str, stdin: io.BufferedIOBase) -> io.BufferedIOBase:
    """Return a file, or stdin for `-`, by its bytes."""
    if name == "-":
        return stdin
    try:
        return Path(name).open("rb")
    except OSError as error:
        raise ConfigError(f"--from={name!r}: {error.strerror}") from None
