"""Wake-ups and endings, sent to listeners: directly within a process, by a datagram between processes.

A wake-up is a hint. A lost one costs the wait until the next poll; a forged one costs a look in vain.
"""

from __future__ import annotations

import asyncio
import atexit
import itertools
import logging
import socket
import threading
from collections.abc import Callable, Sequence

import msgspec

from ..contract import Finished

After = list[Callable[[], None]]
"""What is left until after the commit: wake-ups and endings to send."""
LOOPBACK = "127.0.0.1"
_WAKE = b"wake"
MOST_TOLD = 32
"""Ends that are told in one datagram."""
_decode = msgspec.msgpack.Decoder(Finished | list[Finished]).decode
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
        self._on_wake = on_wake
        self._on_finished = on_finished
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.DatagramTransport | None = None

    async def open(self, *, other_processes: bool) -> SqliteListener:
        """Give the listener an address; with `other_processes`, one that other processes can reach."""
        if other_processes:
            self._transport, _ = await self._loop.create_datagram_endpoint(lambda: self, local_addr=(LOOPBACK, 0))
            self.address = "{}:{}".format(*self._transport.get_extra_info("sockname")[:2])
        else:
            self.address = f"here:{next(_numbers)}"
        _listeners[self.address] = self
        return self

    def datagram_received(self, data: bytes, addr: object) -> None:
        self._handle(data)

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
        for finished in told if isinstance(told, list) else (told,):
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
    for first in range(0, len(told), MOST_TOLD):
        part = told[first : first + MOST_TOLD]
        _send(address, _encode(part if len(part) > 1 else part[0]))


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
    host, _, port = address.partition(":")
    if host != LOOPBACK:
        return  # of a memory store in another process, or nothing that `listen` made
    try:
        _socket().sendto(message, (host, int(port)))
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
