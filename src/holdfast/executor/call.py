"""How a handler is called: its arguments from the payload, the job where it asks for it, and what it returns."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import CoroutineType
from typing import Protocol, TypeGuard

from ..app.plain import load, plain_signature
from ..app.task import Task
from ..codec import Codec, Signature
from ..codec import codec as find_codec
from ..core.size import DEFAULT_SIZE, fit_result
from ..core.state import State
from ..errors import PayloadError, ResultInvalid, ResultTooLarge
from ..handler.continuation import Blocker, Continued
from ..handler.job import Job
from ..store.contract import BlockerRecord, Claimed, Complete
from .process.frames import HandlerPath

SETUP = "HOLDFAST_SETUP"
"""The variable with the import path of a function that a process calls before it imports handlers: `django:setup`."""


class Callee(Protocol):
    """What runs a job: a task, or a plain function."""

    @property
    def fn(self) -> Callable[..., object]: ...
    @property
    def signature(self) -> Signature: ...
    @property
    def codec(self) -> Codec: ...
    @property
    def result_codec(self) -> Codec: ...
    @property
    def max_result(self) -> int: ...


@dataclass(frozen=True)
class PlainCallee:
    """A function that is no task."""

    fn: Callable[..., object]
    signature: Signature
    codec: Codec
    result_codec: Codec
    max_result: int = DEFAULT_SIZE


@functools.cache
def set_up_process(path: str) -> None:
    """Call a function by its import path, once in this process."""
    load(path)()


def found(handler: HandlerPath) -> Callee:
    """Import and return what an import path names, in the process that runs it."""
    if path := os.environ.get(SETUP):
        set_up_process(path)
    target = load(handler.path)
    if isinstance(target, Task):
        return target
    return PlainCallee(
        target,
        plain_signature(target, _type(handler.payload), _type(handler.result)),
        find_codec(handler.codec or "json"),
        find_codec(handler.result_codec or "json"),
        handler.max_result,
    )


def _type(path: str | None) -> object:
    return None if path is None else load(path)


async def pass_producers(result: object) -> object:
    """Return what a handler returned; the job with which its chain continues has passed producer middleware."""
    if isinstance(result, Continued):
        await result.pass_producers()
    return result


def completed(job: Job, result: object, callee: Callee) -> Complete:
    """Return the settlement for what a handler returned: a result, or the job with which its chain continues."""
    if isinstance(result, Continued):
        if isinstance(callee, Task):
            result.refuse_elsewhere(callee.registry.client.store)
        return Complete(job.lease, b"", job.result_ttl_ms, result.after(job.chain, job.position, callee.result_codec))
    data = _encoded(result, callee)
    if len(data) > callee.max_result:
        fit_result(data, callee.max_result, f"{job.queue}/{job.id}", ResultTooLarge)
    return Complete(job.lease, data, job.result_ttl_ms)


def _encoded(result: object, callee: Callee) -> bytes:
    """Return the bytes of a result; what cannot be encoded now cannot be after a retry either."""
    try:
        return callee.signature.encode_result(result, callee.result_codec)
    except PayloadError as error:
        raise ResultInvalid(str(error), path=error.path) from error
    except MemoryError:
        raise
    except Exception as error:  # of a codec that is not ours
        raise ResultInvalid(f"the result cannot be encoded: {type(error).__name__}: {error}", path="result") from error


def blocker(callee: Callee, record: BlockerRecord) -> Blocker:
    """Return what a job waited for, decoded as the task that gave the result says, where it is known here."""
    if isinstance(callee, Task):
        return callee.registry.blocker(record)
    result = None if record.result is None else callee.result_codec.decode(record.result)
    return Blocker(
        queue=record.ref.queue, id=record.ref.id, run=record.ref.run, state=record.state or State.CANCELLED,
        result=result, error=record.error,
    )  # fmt: skip


def arguments(callee: Callee, claimed: Claimed, job: Job) -> tuple[tuple[object, ...], dict[str, object]]:
    """Return what to call the handler with."""
    if claimed.task is None or (claimed.envelope.failed is not None and _is_of_plain(job)):
        args, kwargs = callee.signature.take_one(claimed.payload, callee.codec)
    else:
        args, kwargs = callee.signature.decode(claimed.payload, callee.codec)
    for name in callee.signature.injected:
        kwargs[name] = job
    return args, kwargs


async def run_inline(fn: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    """Return what the handler returns. A `def` handler holds up the loop for as long as it runs."""
    outcome = fn(*args, **kwargs)
    return await outcome if is_awaitable(outcome) else outcome


def is_awaitable(outcome: object) -> TypeGuard[Awaitable[object]]:
    """Return whether a handler is still to be waited for; nearly every one is a coroutine, which is seen at once."""
    return type(outcome) is CoroutineType or inspect.isawaitable(outcome)


def _is_of_plain(job: Job) -> bool:
    """True for a fail handler's job with the payload of a plain one."""
    failed = job.failed
    return failed is not None and failed.task is None
