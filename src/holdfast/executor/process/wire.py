"""What a worker and its processes say to each other: frames of MessagePack, each behind its length."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any, Literal, cast

import msgspec

from ...core.job import ErrorRecord, Progress
from ...core.sandbox import Sandbox
from ...core.size import DEFAULT_SIZE, MOST_SIZE
from ...store.contract import Abort, BlockerRecord, Claimed, Continuation

LENGTH = struct.Struct(">I")
ROUND_IT = 1024 * 1024
"""What a frame may hold beside a result or a payload: an error with its fields, or a line of a log."""
MOST = MOST_SIZE + ROUND_IT
"""A frame longer than this is nobody's payload. What a sandbox sends has the results that it may give for a limit."""


class _Frame(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Fields travel by their place: both ends are the same version, as one starts the other."""


class Hello(_Frame, frozen=True):
    """To the process, first: how it shall be."""

    path: list[str]
    level: int
    resources: list[str] = []
    sandbox: Sandbox | None = None
    mark: int = 0
    """By which whatever it starts is known, where that matters; 0 is none."""
    pythonpath: str | None = None
    """What PYTHONPATH is for the programs of its handlers; its own leads to this package, and to nothing of theirs."""


class Handler(_Frame, frozen=True):
    """Which function runs a job, and how its payload is coded."""

    place: str
    codec: str | None = None
    result_codec: str | None = None
    """`None`: what the task says, which is found at that place."""
    max_result: int = DEFAULT_SIZE
    """The most bytes that its result may have."""


class Run(_Frame, frozen=True):
    """To the process: run a job."""

    number: int
    handler: Handler
    claimed: Claimed
    context: dict[str, Any] | None = None


class Stop(_Frame, frozen=True):
    """To the process: this handler should stop."""

    number: int
    reason: Abort


class Heard(_Frame, frozen=True):
    """To the process: what the store answered to a report."""

    call: int
    reply: str


class Waited(_Frame, frozen=True):
    """To the process: the chains that a job waited for."""

    call: int
    blockers: list[BlockerRecord] | None
    """`None`: the store did not tell."""


class Leave(_Frame, frozen=True):
    """To the process: close what is open; no job follows."""


class Ready(_Frame, frozen=True):
    """From the process: jobs can run."""


class Began(_Frame, frozen=True):
    """From the process: the handler starts, and with it its own time."""

    number: int


class Stuck(_Frame, frozen=True):
    """From the process: its event loop does not move, and whose handler is in it."""

    number: int | None
    """0 where nobody knows; `None` when it moves again."""


class Broken(_Frame, frozen=True):
    """From the process: it cannot start, and this is why."""

    error: ErrorRecord
    trouble: bool = False
    """It is the worker's own, and not the fault of a task's sandbox."""


class Usage(_Frame, frozen=True):
    """What the process has used so far: resident bytes, and seconds of processor time."""

    memory: int
    cpu: float


class Returned(_Frame, frozen=True):
    """From the process: the handler returned."""

    number: int
    result: bytes
    ttl_ms: int | None
    usage: Usage
    then: Continuation | None = None


class Raised(_Frame, frozen=True):
    """From the process: the handler raised."""

    number: int
    kind: Literal["failure", "permanent", "snooze", "aborted", "trouble"]
    error: ErrorRecord
    ttl_ms: int | None
    usage: Usage
    at_ms: int | None = None
    delay_ms: int | None = None
    kinds: tuple[str, ...] = ()
    """The names of the exception's classes."""


class Report(_Frame, frozen=True):
    """From the process: progress or a checkpoint of a running job."""

    call: int
    number: int
    progress: Progress | None
    checkpoint: bytes | None


class Blockers(_Frame, frozen=True):
    """From the process: what did a running job wait for?"""

    call: int
    number: int


class Said(_Frame, frozen=True):
    """From the process: a line for the worker's log."""

    logger: str
    level: int
    message: str
    trace: str = ""
    """The traceback that belongs to it."""


class Left(_Frame, frozen=True):
    """From the process: everything is closed, it may be ended."""


ToProcess = Hello | Run | Stop | Heard | Waited | Leave
FromProcess = Ready | Began | Stuck | Broken | Returned | Raised | Report | Blockers | Said | Left

_pack = msgspec.msgpack.Encoder().encode
to_process = msgspec.msgpack.Decoder(ToProcess).decode
from_process = msgspec.msgpack.Decoder(FromProcess).decode


def packed(frame: ToProcess | FromProcess) -> bytes:
    """Return a frame behind its length."""
    body = _pack(frame)
    return LENGTH.pack(len(body)) + body


class Link(asyncio.Protocol):
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
        """Whole frames are heard, as long as somebody listens."""
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
        """Nothing more is heard from an end that does not keep to the protocol."""
        self._buffer.clear()
        if self._transport is not None:
            self._transport.abort()
        self._lost(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self.listen(True)  # to the last words
        self._lost(exc)

    def send(self, frame: ToProcess | FromProcess) -> None:
        """The frame is on its way, or nobody is there to get it."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(packed(frame))

    def listen(self, wanted: bool) -> None:
        """The other end is heard, or has to wait until it is."""
        self._listening = wanted
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading() if wanted else self._transport.pause_reading()
        if wanted:
            self._take()

    def close(self) -> None:
        """Nothing more is said or heard."""
        if self._transport is not None:
            self._transport.close()
