"""How a handler is called: its arguments from the payload, and the job where it asks for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from ..codec import Codec, Signature
from ..codec import codec as find_codec
from ..continuation import Blocker, Continued
from ..core.size import DEFAULT_SIZE, fit_result
from ..core.state import State
from ..errors import ResultTooLarge
from ..job import Job
from ..registry import load
from ..store.contract import BlockerRecord, Claimed, Complete
from ..task import Task
from .process.wire import Handler


class Callee(Protocol):
    """What runs a job: a task, or a plain function."""

    @property
    def fn(self) -> Callable[..., Any]: ...
    @property
    def signature(self) -> Signature: ...
    @property
    def codec(self) -> Codec: ...
    @property
    def result_codec(self) -> Codec: ...
    @property
    def max_result(self) -> int: ...


@dataclass(frozen=True)
class Plain:
    """A function that is no task."""

    fn: Callable[..., Any]
    signature: Signature
    codec: Codec
    result_codec: Codec
    max_result: int = DEFAULT_SIZE


def found(handler: Handler) -> Callee:
    """Return what is at a place, in the process that runs it."""
    target = load(handler.place)
    if isinstance(target, Task):
        return target
    return Plain(
        target,
        Signature.of(target, inject=(Job,)),
        find_codec(handler.codec or "json"),
        find_codec(handler.result_codec or "json"),
        handler.max_result,
    )


def completed(job: Job, result: Any, callee: Callee) -> Complete:
    """Return the word for what a handler returned: a result, or the job with which its chain goes on."""
    if isinstance(result, Continued):
        if isinstance(callee, Task):
            result.refuse_elsewhere(callee.registry.client.store)
        return Complete(job.lease, b"", job.result_ttl_ms, result.after(job.chain, job.position, callee.result_codec))
    data = callee.signature.encode_result(result, callee.result_codec)
    fit_result(data, callee.max_result, f"{job.queue}/{job.id}", ResultTooLarge)
    return Complete(job.lease, data, job.result_ttl_ms)


def blocker(callee: Callee, record: BlockerRecord) -> Blocker:
    """Return what a job waited for, decoded as the task that gave the result says, where it is known here."""
    if isinstance(callee, Task):
        return callee.registry.blocker(record)
    result = None if record.result is None else callee.result_codec.decode(record.result)
    return Blocker(
        queue=record.ref.queue, id=record.ref.id, run=record.ref.run, state=record.state or State.CANCELLED,
        result=result, error=record.error,
    )  # fmt: skip


def arguments(callee: Callee, claimed: Claimed, job: Job) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return what to call the handler with."""
    if claimed.task is None:
        args, kwargs = callee.signature.take_one(callee.codec.decode(claimed.payload))
    else:
        args, kwargs = callee.signature.decode(claimed.payload, callee.codec)
    for name in callee.signature.injected:
        kwargs[name] = job
    return args, kwargs
