"""What a process says to its worker, from whichever thread, whether or not its event loop moves."""

from __future__ import annotations

import select
import socket
import threading

from . import wire


class Outbox:
    """Frames leave at once, whole and in order; what the line does not take yet leaves when it does."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._lock = threading.Lock()
        self._left = bytearray()

    def send(self, frame: wire.FromProcess) -> None:
        """The frame is on its way."""
        data = wire.packed(frame)
        with self._lock:
            waiting = bool(self._left)
            self._left += data
            if waiting or self._flushed():
                return
        threading.Thread(target=self._wait, name="holdfast-outbox", daemon=True).start()

    def _wait(self) -> None:
        """In a thread, as the worker is slow to read."""
        poll = select.poll()
        poll.register(self._line, select.POLLOUT)
        while True:
            poll.poll()
            with self._lock:
                if self._flushed():
                    return

    def _flushed(self) -> bool:
        """Return whether nothing is left to be sent."""
        try:
            sent = self._line.send(self._left, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:  # the worker is gone, as whoever reads the line finds out
            sent = len(self._left)
        del self._left[:sent]
        return not self._left
