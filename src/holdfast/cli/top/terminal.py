"""The terminal: keys come one by one, frames are drawn in place, and everything is put back at the end."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Callable
from types import TracebackType
from typing import IO, Any, Self, TextIO

from ...errors import ConfigError
from .keys import KeyParser

try:
    import termios
    import tty
except ImportError:  # Windows
    termios = None  # type: ignore[assignment]

ENTER = "\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J"
LEAVE = "\x1b[0m\x1b[?25h\x1b[?1049l"
BEGIN_FRAME, END_FRAME = "\x1b[?2026h", "\x1b[?2026l"
"""Terminals that know these show a frame at once; others ignore them."""
MOST_KEPT = 4000
"""Bytes of stderr that are shown at the end."""
ESCAPE_PAUSE = 0.05
"""Seconds after which an escape was the key and not the beginning of a sequence."""


def is_interactive() -> bool:
    """Return whether there is a terminal to read keys from and to draw on."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def must_have_keys() -> None:
    """Raise where keys cannot be read one by one."""
    if termios is None:
        raise ConfigError("holdfast top needs a POSIX terminal; here, use holdfast top --once or --json")


class KeptStderr:
    """Keeps what is written to stderr meanwhile, by a log handler say, and shows the last of it at the end."""

    def __init__(self) -> None:
        self._fd: int | None = None
        self._kept: IO[bytes] | None = None

    def begin(self) -> None:
        """Keep what is written from now on."""
        if not sys.stderr.isatty():
            return
        sys.stderr.flush()
        self._kept = tempfile.TemporaryFile()  # noqa: SIM115
        self._fd = os.dup(2)
        os.dup2(self._kept.fileno(), 2)

    def end(self) -> None:
        """Keep no more, and write the last lines of what was kept."""
        if self._fd is None or self._kept is None:
            return
        sys.stderr.flush()
        os.dup2(self._fd, 2)
        os.close(self._fd)
        size = self._kept.seek(0, os.SEEK_END)
        self._kept.seek(max(0, size - MOST_KEPT))
        os.write(2, self._kept.read())
        self._kept.close()
        self._fd = self._kept = None


class Terminal:
    """Raw input and the alternate screen, from `__enter__` to `__exit__`, whatever happens in between."""

    def __init__(self, output: TextIO | None = None) -> None:
        self._in = sys.stdin.fileno()
        self._out = output or sys.stdout
        self._saved: list[Any] | None = None
        self._lines: list[str] = []
        self._parser = KeyParser()
        self._stderr = KeptStderr()
        self._timer: asyncio.TimerHandle | None = None
        self._on_key: Callable[[str], None] | None = None
        self._on_lost: Callable[[], None] | None = None

    def __enter__(self) -> Self:
        must_have_keys()
        self._saved = termios.tcgetattr(self._in)
        self._stderr.begin()
        self.resume()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.give_back()
        self._saved = None
        self._stderr.end()

    def resume(self) -> None:
        """Take the terminal: keys without Enter and without echo (Ctrl-C still interrupts), another screen."""
        tty.setcbreak(self._in, termios.TCSANOW)
        self._write(ENTER)
        self._lines = []

    def give_back(self) -> None:
        """Put the terminal back as it was. It may be gone already."""
        try:
            self._write(LEAVE)
        except (OSError, ValueError):
            pass
        if self._saved is not None:
            try:
                termios.tcsetattr(self._in, termios.TCSANOW, self._saved)
            except termios.error:
                pass

    def listen(self, on_key: Callable[[str], None], on_lost: Callable[[], None]) -> None:
        """Call back in this event loop for each key, and when the terminal is gone."""
        self._on_key, self._on_lost = on_key, on_lost
        asyncio.get_running_loop().add_reader(self._in, self._read)

    def unlisten(self) -> None:
        """Read no more keys."""
        asyncio.get_running_loop().remove_reader(self._in)
        if self._timer is not None:
            self._timer.cancel()

    @property
    def ascii_only(self) -> bool:
        """Whether it can show nothing but ASCII."""
        return not (self._out.encoding or "").lower().replace("-", "").startswith("utf")

    def size(self) -> tuple[int, int]:
        """Return columns and lines."""
        try:
            return tuple(os.get_terminal_size(self._out.fileno()))  # type: ignore[return-value]
        except OSError:
            return 80, 24

    def draw(self, lines: list[str], *, anew: bool = False) -> None:
        """Show a frame: only lines that have changed are written, in one piece."""
        before = [] if anew else self._lines
        changed = [
            f"\x1b[{number};1H{line}\x1b[0m\x1b[K"
            for number, line in enumerate(lines, 1)
            if number > len(before) or before[number - 1] != line
        ]
        rest = "" if len(before) == len(lines) and not anew else f"\x1b[{len(lines)};999H\x1b[J" if lines else ""
        clear = "\x1b[H\x1b[2J" if anew else ""
        self._lines = list(lines)
        if changed or rest or clear:
            self._write(f"{BEGIN_FRAME}{clear}{''.join(changed)}{rest}{END_FRAME}")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()

    def _read(self) -> None:
        try:
            data = os.read(self._in, 1024)
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._in)
            if self._on_lost:
                self._on_lost()
            return
        if self._timer is not None:
            self._timer.cancel()
        self._tell(self._parser.feed(data))
        if self._parser.unsure:
            self._timer = asyncio.get_running_loop().call_later(ESCAPE_PAUSE, self._flush)

    def _flush(self) -> None:
        self._tell(self._parser.flush())

    def _tell(self, keys: list[str]) -> None:
        for key in keys:
            if self._on_key:
                self._on_key(key)
