"""The outbox of a process: frames to its worker, sent from any thread, whether or not its event loop moves."""

from __future__ import annotations

import select
import socket
import threading

from .. import frames


class Outbox:
    """Send frames at once, whole and in order; keep what the line does not take yet."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._lock = threading.Lock()
        self._left = bytearray()

    def send(self, frame: frames.FromProcess) -> None:
        """Send the frame."""
        data = frames.packed(frame)
        with self._lock:
            waiting = bool(self._left)
            self._left += data
            if waiting or self._flushed():
                return
        threading.Thread(target=self._wait, name="holdfast-outbox", daemon=True).start()

    def _wait(self) -> None:
        """Send the rest from a thread, as the worker is slow to read."""
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
        except OSError:  # the worker is gone, as the reader of the line finds out
            sent = len(self._left)
        del self._left[:sent]
        return not self._left
