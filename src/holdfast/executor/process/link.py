"""One end of the line between a worker and a process: frames of MessagePack, each behind its length."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import msgspec

from .frames import LENGTH, MOST, FromProcess, ToProcess, packed


class FrameLink(asyncio.Protocol):
    """One end of the line between a worker and a process."""

    def __init__(
        self,
        decode: Callable[[bytes], Any],
        heard: Callable[[Any], None],
        lost: Callable[[Exception | None], None],
        most: int = MOST,
    ) -> None:
        self.most = most
        """The longest frame that is heard."""
        self._decode = decode
        self._heard = heard
        self._lost = lost
        self._buffer = bytearray()
        self._listening = True
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are none by name

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._take()

    def _take(self) -> None:
        """Pass on whole frames, unless reading is paused."""
        buffer = self._buffer
        start = 0
        while self._listening and len(buffer) - start >= LENGTH.size:
            (length,) = LENGTH.unpack_from(buffer, start)
            if length > self.most:
                return self._refuse(ValueError(f"a frame of {length} bytes"))
            end = start + LENGTH.size + length
            if len(buffer) < end:
                break
            try:
                frame = self._decode(bytes(buffer[start + LENGTH.size : end]))
            except (msgspec.MsgspecError, RecursionError) as error:
                return self._refuse(ValueError(str(error)))
            start = end
            self._heard(frame)
        del buffer[:start]
        return None

    def _refuse(self, error: Exception) -> None:
        """Cut the line to an end that breaks the protocol."""
        self._buffer.clear()
        if self._transport is not None:
            self._transport.abort()
        self._lost(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self.listen(True)  # to the last words
        self._lost(exc)

    def send(self, frame: ToProcess | FromProcess) -> None:
        """Send the frame, unless the line is closed."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(packed(frame))

    def listen(self, wanted: bool) -> None:
        """Resume or pause reading."""
        self._listening = wanted
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading() if wanted else self._transport.pause_reading()
        if wanted:
            self._take()

    def close(self) -> None:
        """Close the line."""
        if self._transport is not None:
            self._transport.close()
