"""A terminal for tests: a command runs in it, keys are pressed, and its screen is read."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from support import PATIENCE

_SEQUENCE = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])")
_OWN_SESSION = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
"""The command gets the terminal as its own, so that Ctrl-C and a change of size reach it as signals."""


def _surroundings() -> dict[str, str]:
    """Return the environment, without the size of another terminal, which pytest-xdist tells its processes."""
    return {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}


class Screen:
    """What a terminal shows: it knows the sequences that commands write, and fails on any other."""

    def __init__(self) -> None:
        self.lines: dict[int, str] = {}
        self.row = self.column = 1
        self.alternate = False
        self.cursor = True
        self._rest = ""

    def feed(self, text: str) -> None:
        """Take in what was written."""
        text = self._rest + text
        self._rest = ""
        while text:
            found = _SEQUENCE.match(text)
            if found:
                self._obey(found[1], found[2])
                text = text[found.end() :]
            elif text[0] == "\x1b":
                assert len(text) < 20, f"an unknown sequence: {text[:20]!r}"
                self._rest = text
                return
            else:
                self._put(text[0])
                text = text[1:]

    def _put(self, character: str) -> None:
        if character == "\r":
            self.column = 1
        elif character == "\n":
            self.row, self.column = self.row + 1, 1
        else:
            assert character.isprintable(), f"it steers the terminal: {character!r}"
            line = self.lines.get(self.row, "").ljust(self.column - 1)
            self.lines[self.row] = line[: self.column - 1] + character + line[self.column :]
            self.column += 1

    def _obey(self, numbers: str, letter: str) -> None:
        if letter == "H":
            row, _, column = numbers.partition(";")
            self.row, self.column = int(row or 1), int(column or 1)
        elif letter == "A":
            self.row -= int(numbers or 1)
        elif letter == "K":
            self.lines[self.row] = "" if numbers == "2" else self.lines.get(self.row, "")[: self.column - 1]
        elif letter == "J":
            keep = 0 if numbers == "2" else self.row
            self.lines = {row: line for row, line in self.lines.items() if row <= keep}
        elif numbers == "?1049":
            self.alternate = letter == "h"
        elif numbers == "?25":
            self.cursor = letter == "h"
        else:
            assert letter == "m" or numbers == "?2026", f"an unknown sequence: {numbers}{letter}"

    @property
    def text(self) -> str:
        """The lines."""
        return "\n".join(self.lines.get(row, "").rstrip() for row in range(1, max(self.lines, default=0) + 1))


class InTerminal:
    """A command in a terminal of its own."""

    def __init__(self, *words: str, cwd: Path, size: tuple[int, int] = (140, 30), **environment: str) -> None:
        self._master, self._slave = pty.openpty()
        self.resize(*size)
        self.before: list[Any] = termios.tcgetattr(self._slave)
        self.screen = Screen()
        self.raw = ""
        command: Sequence[str] = [sys.executable, "-c", _OWN_SESSION, sys.executable, "-m", "holdfast", *words]
        self.process = subprocess.Popen(
            command, stdin=self._slave, stdout=self._slave, stderr=self._slave, cwd=cwd, start_new_session=True,
            env={**_surroundings(), "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", **environment},
        )  # fmt: skip

    def resize(self, width: int, height: int) -> None:
        """The terminal has another size from now on."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def press(self, *keys: str) -> None:
        """Keys are pressed."""
        os.write(self._master, "".join(keys).encode())

    def read(self) -> str:
        """Return the screen, with all that was written by now."""
        while select.select([self._master], [], [], 0)[0]:
            try:
                data = os.read(self._master, 65536)
            except OSError:
                break
            if not data:
                break
            text = data.decode("utf-8", "replace")
            self.raw += text
            self.screen.feed(text)
        return self.screen.text

    def shows(self, *words: str, gone: Sequence[str] = ()) -> str:
        """Wait until all of these words are on the screen, and none of the others."""

        def seen(text: str) -> bool:
            return all(word in text for word in words) and not any(word in text for word in gone)

        return self._until(seen, f"{words} without {gone}")

    def _until(self, check: Callable[[str], bool], what: str) -> str:
        deadline = time.monotonic() + PATIENCE
        while not check(text := self.read()):
            assert time.monotonic() < deadline, f"never shown: {what}\n{text}\n{self.raw[-2000:]!r}"
            time.sleep(0.01)
        return text

    def end(self) -> int:
        """Return the exit code, once the command has ended; the terminal is as it was before."""
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            self.read()
            assert time.monotonic() < deadline, f"it has not ended\n{self.screen.text}"
            time.sleep(0.01)
        self.read()
        assert termios.tcgetattr(self._slave) == self.before, "the modes of the terminal are as they were"
        assert (self.screen.alternate, self.screen.cursor) == (False, True), "its own screen and cursor are back"
        return self.process.returncode

    def close(self) -> None:
        """Nothing is left."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self._master)
        os.close(self._slave)
