"""Wake-ups: directly within a process, by a datagram on the loopback between processes.

A wake-up is a hint. One that is lost costs a poll, and one that is forged costs a look.
"""

from __future__ import annotations

import asyncio
import atexit
import itertools
import socket
import threading
from collections.abc import Callable, Iterable

import msgspec

from ..contract import Finished

LOOPBACK = "127.0.0.1"
_WAKE = b"wake"
_decode = msgspec.msgpack.Decoder(Finished).decode
_encode = msgspec.msgpack.Encoder().encode
_ears: dict[str, Ear] = {}
_numbers = itertools.count(1)
_sender: socket.socket | None = None
_sender_lock = threading.Lock()


class Ear(asyncio.DatagramProtocol):
    """Hears wake-ups and endings, in the event loop in which it was made."""

    def __init__(self, on_wake: Callable[[], None], on_finished: Callable[[Finished], None]) -> None:
        self.address = ""
        self._on_wake = on_wake
        self._on_finished = on_finished
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.DatagramTransport | None = None

    async def open(self, *, other_processes: bool) -> Ear:
        """The ear has an address; with `other_processes`, one that they can reach."""
        if other_processes:
            self._transport, _ = await self._loop.create_datagram_endpoint(lambda: self, local_addr=(LOOPBACK, 0))
            self.address = "{}:{}".format(*self._transport.get_extra_info("sockname")[:2])
        else:
            self.address = f"here:{next(_numbers)}"
        _ears[self.address] = self
        return self

    def datagram_received(self, data: bytes, addr: object) -> None:
        self._hear(data)

    def error_received(self, exc: Exception) -> None:
        """A reader that is gone is no concern of ours."""

    def tell(self, message: bytes) -> None:
        """The message is heard in the ear's own loop, from whatever thread it comes."""
        try:
            self._loop.call_soon_threadsafe(self._hear, message)
        except RuntimeError:
            _ears.pop(self.address, None)

    def _hear(self, message: bytes) -> None:
        if message == _WAKE:
            self._on_wake()
            return
        try:
            finished = _decode(message)
        except msgspec.MsgspecError:
            return
        self._on_finished(finished)

    def close(self) -> None:
        """Hear nothing more."""
        _ears.pop(self.address, None)
        if self._transport is not None:
            self._transport.close()
            self._transport = None


def ring(addresses: Iterable[str]) -> None:
    """Each address is told to look for work."""
    for address in addresses:
        _send(address, _WAKE)


def announce(addresses: Iterable[str], finished: Finished) -> None:
    """Each address is told that a run is over."""
    message = _encode(finished)
    for address in addresses:
        _send(address, message)


def _send(address: str, message: bytes) -> None:
    if ear := _ears.get(address):
        ear.tell(message)
        return
    host, _, port = address.partition(":")
    if host != LOOPBACK:
        return  # of another process, or nothing that `listen` made
    try:
        _socket().sendto(message, (host, int(port)))
    except (OSError, ValueError, OverflowError):
        return  # a hint that could not be given; the poll finds it


def _socket() -> socket.socket:
    global _sender
    with _sender_lock:
        if _sender is None:
            _sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            _sender.setblocking(False)
            atexit.register(_sender.close)
        return _sender
