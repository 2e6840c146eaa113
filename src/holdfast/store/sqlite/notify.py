"""Wake-ups and endings, sent to listeners: directly within a process, by a datagram between processes.

A wake-up is a hint, and a lost one costs the wait until the next poll. The end of a run may bring its result along. So
a datagram begins with a word of its listener's address, which only those know who can read the store.
"""

from __future__ import annotations

import asyncio
import atexit
import hmac
import itertools
import logging
import secrets
import socket
import threading
from collections.abc import Callable, Sequence

import msgspec

from ..batching import together
from ..contract import Finished

After = list[Callable[[], None]]
"""What is left until after the commit: wake-ups and endings to send."""
LOOPBACK = "127.0.0.1"
_WAKE = b"wake"
MOST_TOLD = 128
"""Ends that are told in one datagram."""
MOST_BYTES = 32 * 1024
"""About so long a datagram may get, of the 65,507 bytes that one can have."""
MOST_RESULT_BYTES = 1024
"""A longer result is not told, but asked for."""
_decode = msgspec.msgpack.Decoder(list[Finished]).decode
_encode = msgspec.msgpack.Encoder().encode
_log = logging.getLogger("holdfast")
_listeners: dict[str, SqliteListener] = {}
_numbers = itertools.count(1)
_sender: socket.socket | None = None
_sender_lock = threading.Lock()


class SqliteListener(asyncio.DatagramProtocol):
    """Receives wake-ups and endings, in the event loop in which it was made."""

    def __init__(self, on_wake: Callable[[], None], on_finished: Callable[[Finished], None]) -> None:
        self.address = ""
        self._secret = secrets.token_urlsafe(12).encode()
        self._on_wake = on_wake
        self._on_finished = on_finished
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.DatagramTransport | None = None

    async def open(self, *, other_processes: bool) -> SqliteListener:
        """Give the listener an address; with `other_processes`, one that other processes can reach."""
        if other_processes:
            self._transport, _ = await self._loop.create_datagram_endpoint(lambda: self, local_addr=(LOOPBACK, 0))
            host, port = self._transport.get_extra_info("sockname")[:2]
            self.address = f"{host}:{port}/{self._secret.decode()}"
        else:
            self.address = f"here:{next(_numbers)}"
        _listeners[self.address] = self
        return self

    def datagram_received(self, data: bytes, addr: object) -> None:
        """Take what another process sends; from one that does not know the word of the address, nothing."""
        size = len(self._secret)
        if hmac.compare_digest(data[:size], self._secret):
            self._handle(data[size:])

    def error_received(self, exc: Exception) -> None:
        """Ignore that a receiver is gone."""

    def receive(self, message: bytes) -> None:
        """Take a message from any thread to the listener's own loop."""
        try:
            self._loop.call_soon_threadsafe(self._handle, message)
        except RuntimeError:
            _listeners.pop(self.address, None)

    def _handle(self, message: bytes) -> None:
        if message == _WAKE:
            self._on_wake()
            return
        try:
            told = _decode(message)
        except msgspec.MsgspecError:
            return
        for finished in told:
            self._on_finished(finished)

    def close(self) -> None:
        """Receive nothing more."""
        _listeners.pop(self.address, None)
        if self._transport is not None:
            self._transport.close()
            self._transport = None


def wake(address: str) -> None:
    """Tell the listener at an address to look for work."""
    _send(address, _WAKE)


def notify(address: str, told: Sequence[Finished]) -> None:
    """Tell the listener at an address that these runs are over, or got further: its waiters then go on together."""
    left = told
    while left:
        count = together(left[:MOST_TOLD], _size, MOST_BYTES)
        _send(address, _encode(left[:count]))
        left = left[count:]


def _size(finished: Finished) -> int:
    """Return about how many bytes it takes to tell an end."""
    return 64 + len(finished.queue) + len(finished.id) + len(finished.result or b"")


def follow_up(after: After) -> None:
    """Do what was left until after the commit; an error there must not end the thread."""
    for each in after:
        try:
            each()
        except Exception:
            _log.exception("wake_up_failed: it costs a poll")


def _send(address: str, message: bytes) -> None:
    if listener := _listeners.get(address):
        listener.receive(message)
        return
    host, _, rest = address.partition(":")
    if host != LOOPBACK:
        return  # of a memory store in another process, or nothing that `listen` made
    port, _, secret = rest.partition("/")
    try:
        _socket().sendto(secret.encode() + message, (host, int(port)))
    except (OSError, ValueError, OverflowError):
        return  # a hint that could not be sent; the next poll finds the job


def _socket() -> socket.socket:
    global _sender
    with _sender_lock:
        if _sender is None:
            _sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            _sender.setblocking(False)
            atexit.register(_sender.close)
        return _sender
