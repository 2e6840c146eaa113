"""What a worker and its processes say to each other: frames of MessagePack, each behind its length."""

from __future__ import annotations

import struct
from typing import Any, Literal

import msgspec

from ...core.job import ErrorRecord, Progress
from ...core.policy import Retry
from ...core.sandbox import Sandbox
from ...core.size import DEFAULT_SIZE, MOST_SIZE
from ...store.contract import Abort, BlockerRecord, Claimed, Continuation, Settled

LENGTH = struct.Struct(">I")
ROUND_IT = 1024 * 1024
"""What a frame may hold beside a result or a payload: an error with its fields, or a line of a log."""
MOST = MOST_SIZE + ROUND_IT
"""No payload makes a frame longer than this. For a sandbox the limit is the largest result that it may give."""


class _Frame(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A frame without field names: both ends have the same version, as one starts the other."""


class Hello(_Frame, frozen=True):
    """To the process, first: its settings."""

    path: list[str]
    level: int
    resources: list[str] = []
    sandbox: Sandbox | None = None
    mark: int = 0
    """By which whatever it starts is known, where that matters; 0 is none."""
    pythonpath: str | None = None
    """What PYTHONPATH is for the programs of its handlers; its own leads to this package, and to nothing of theirs."""


class HandlerPath(_Frame, frozen=True):
    """Which function runs a job, and how its payload is coded."""

    path: str
    """`package.module:name` of the function or task."""
    codec: str | None = None
    result_codec: str | None = None
    """`None`: what the task says, which is found at that place."""
    max_result: int = DEFAULT_SIZE
    """The most bytes that its result may have."""
    payload: str | None = None
    """Where the type of its plain payload is, if not in its annotations."""
    result: str | None = None
    """Where the type of its result is, if not in its annotations."""


class RunJob(_Frame, frozen=True):
    """To the process: run a job."""

    number: int
    handler: HandlerPath
    claimed: Claimed
    context: dict[str, Any] | None = None
    worker: str = ""
    """The name of the worker."""
    limits: Retry = Retry()
    session: str | None = None
    """Whose lease it is; a sandbox, which has no way to the store, is not told."""
    trace: dict[str, str] | None = None
    """The trace context of the attempt, as headers have it."""

    def retry(self, claimed: Claimed) -> Retry:
        """Return what limits the job, as it was when it was sent."""
        return self.limits


class Stop(_Frame, frozen=True):
    """To the process: this handler should stop."""

    number: int
    reason: Abort


class ProgressReply(_Frame, frozen=True):
    """To the process: what the store answered to a report."""

    call: int
    reply: str


class BlockersReply(_Frame, frozen=True):
    """To the process: the chains that a job waited for."""

    call: int
    blockers: list[BlockerRecord] | None
    """`None`: the store did not tell."""


class Leave(_Frame, frozen=True):
    """To the process: close what is open; no job follows."""


class Ready(_Frame, frozen=True):
    """From the process: jobs can run."""


class Began(_Frame, frozen=True):
    """From the process: the handler starts, and its time-out runs."""

    number: int


class Awake(_Frame, frozen=True):
    """From the process: it has heard that a handler's time is over, so its event loop moves."""


class LoopStuck(_Frame, frozen=True):
    """From the process: its event loop does not move, and whose handler is in it."""

    number: int | None
    """0 for unknown; `None` when it moves again."""


class StartFailed(_Frame, frozen=True):
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
    settled: Settled | None = None
    """What the store answered, where the handler completed its job itself."""


class Raised(_Frame, frozen=True):
    """From the process: the handler raised."""

    number: int
    kind: Literal["failure", "permanent", "retry_at", "snooze", "aborted", "trouble", "store"]
    error: ErrorRecord
    ttl_ms: int | None
    usage: Usage
    at_ms: int | None = None
    """When it shall run again, where it says so itself."""
    delay_ms: int | None = None
    kinds: tuple[str, ...] = ()
    """The names of the exception's classes."""


class ProgressReport(_Frame, frozen=True):
    """From the process: progress or a checkpoint of a running job."""

    call: int
    number: int
    progress: Progress | None
    checkpoint: bytes | None


class BlockersQuery(_Frame, frozen=True):
    """From the process: what did a running job wait for?"""

    call: int
    number: int


class LogLine(_Frame, frozen=True):
    """From the process: a line for the worker's log."""

    logger: str
    level: int
    message: str
    trace: str = ""
    """The traceback that belongs to it."""
    number: int = 0
    """The job whose handler logged it; 0 for none."""


class Left(_Frame, frozen=True):
    """From the process: everything is closed, it may be ended."""


ToProcess = Hello | RunJob | Stop | ProgressReply | BlockersReply | Leave
FromProcess = (
    Ready
    | Began
    | Awake
    | LoopStuck
    | StartFailed
    | Returned
    | Raised
    | ProgressReport
    | BlockersQuery
    | LogLine
    | Left
)

_pack = msgspec.msgpack.Encoder().encode
to_process = msgspec.msgpack.Decoder(ToProcess).decode
from_process = msgspec.msgpack.Decoder(FromProcess).decode


def packed(frame: ToProcess | FromProcess) -> bytes:
    """Return a frame behind its length."""
    body = _pack(frame)
    return LENGTH.pack(len(body)) + body
