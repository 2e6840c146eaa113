"""The outlet of a log: writes lines and never waits for their reader, as jobs would wait with it.

A terminal or a pipe is asked before each write whether it takes one, and a pipe that is empty takes as much as it
holds. When it takes none, a thread writes the lines as fast as they are read, and up to `MOST_KEPT` bytes wait for it.
Lines that come beyond that are dropped and counted; a line tells how many, once there is room. Files are written at
once.
"""

from __future__ import annotations

import os
import select
import stat
import threading
from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    import fcntl
    import termios
else:
    try:
        import fcntl
        import termios
    except ImportError:  # Windows
        fcntl = None

MOST_KEPT = 4 * 1024 * 1024
"""How many bytes wait for a slow reader."""
AT_ONCE = 4096
"""What a pipe that takes a write at all takes as a whole (PIPE_BUF)."""
AGAIN = 0.1
"""After so many seconds a stream that does not block is tried again."""
PATIENCE = 2.0
"""How many seconds the end of the program waits for a slow reader."""


class Outlet:
    """Writes text to a stream of the system; to any other object as it is."""

    def __init__(self, stream: TextIO, dropped: Callable[[int], str]) -> None:
        self._stream = stream
        self._dropped_line = dropped
        """Returns the line that tells how many were dropped."""
        self._fd = _descriptor(stream)
        self._is_file = self._fd >= 0 and stat.S_ISREG(os.fstat(self._fd).st_mode)
        self._empty_takes = _capacity(self._fd)
        self._asked = select.poll()
        if self._fd >= 0:
            self._asked.register(self._fd, select.POLLOUT)
        self._lock = threading.Lock()
        self._kept = bytearray()
        self._dropped = 0
        self._idle = threading.Event()
        self._idle.set()

    def write(self, text: str) -> None:
        """Write whole lines, now or soon."""
        if self._fd < 0:
            self._stream.write(text)
            self._stream.flush()
            return
        data = text.encode("utf-8", "backslashreplace")
        with self._lock:
            if self._idle.is_set():
                data = self._written(data)
                if not data:
                    return
                self._idle.clear()
                threading.Thread(target=self._write_kept, name="holdfast-log", daemon=True).start()
            self._keep(data)

    def flush(self, seconds: float = PATIENCE) -> None:
        """Wait until all is written, but not for longer than this."""
        self._idle.wait(seconds)

    def _written(self, data: bytes) -> bytes:
        """Write what is taken at once; return the rest."""
        if self._is_file:
            _write_all(self._fd, data)
            return b""
        view = memoryview(data)
        while view:
            most = self._taken_at_once()
            if not most:
                return bytes(view)
            size = _whole_lines(view, most)
            if not _write_all(self._fd, view[:size]):
                return b""
            view = view[size:]
        return b""

    def _taken_at_once(self) -> int:
        """Return how many bytes the stream takes as a whole, and without waiting."""
        if self._empty_takes > AT_ONCE and _unread(self._fd) == 0:
            return self._empty_takes
        return AT_ONCE if self._asked.poll(0) else 0

    def _keep(self, data: bytes) -> None:
        if len(self._kept) + len(data) > MOST_KEPT:
            self._dropped += data.count(b"\n")
        else:
            self._kept += data

    def _write_kept(self) -> None:
        """Write what is kept, until nothing is; wait for the reader as long as it takes."""
        while True:
            with self._lock:
                if not self._kept and self._dropped:
                    self._kept += self._dropped_line(self._dropped).encode("utf-8", "backslashreplace")
                    self._dropped = 0
                size = _whole_lines(memoryview(self._kept))
                data = bytes(self._kept[:size])
                del self._kept[:size]
                if not data:
                    self._idle.set()
                    return
            _write_all(self._fd, data)


def _descriptor(stream: TextIO) -> int:
    try:
        stream.flush()
        return stream.fileno()
    except (OSError, ValueError, AttributeError):
        return -1  # a stream of a test or a notebook


def _capacity(fd: int) -> int:
    """Return how many bytes an empty pipe takes; 0 for what is no pipe, and where the system does not tell."""
    try:
        if not stat.S_ISFIFO(os.fstat(fd).st_mode):
            return 0
        return fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ)
    except (OSError, AttributeError):
        return 0


def _unread(fd: int) -> int:
    """Return how many bytes of a pipe nobody has read yet."""
    size = array("i", [0])
    try:
        fcntl.ioctl(fd, termios.FIONREAD, size)
    except OSError:
        return -1
    return size[0]


def _whole_lines(data: memoryview, most: int = AT_ONCE) -> int:
    """Return how much to write at once: whole lines, so that those of other processes do not come between."""
    if len(data) <= most:
        return len(data)
    return bytes(data[:most]).rfind(b"\n") + 1 or AT_ONCE


def _write_all(fd: int, data: bytes | memoryview) -> bool:
    """Return whether somebody may read it: a stream that was closed takes nothing, which ends no worker."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:  # whoever shares the stream has made it so
            select.select([], [fd], [], AGAIN)
        except OSError:
            return False
    return True
