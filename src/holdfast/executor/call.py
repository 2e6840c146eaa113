"""How a handler is called: its arguments from the payload, and the job where it asks for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from ..codec import Codec, Signature
from ..codec import codec as find_codec
from ..job import Job
from ..registry import load
from ..store.contract import Claimed
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


@dataclass(frozen=True)
class Plain:
    """A function that is no task."""

    fn: Callable[..., Any]
    signature: Signature
    codec: Codec
    result_codec: Codec


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
    )


def arguments(callee: Callee, claimed: Claimed, job: Job) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return what to call the handler with."""
    if claimed.task is None:
        args, kwargs = callee.signature.take_one(callee.codec.decode(claimed.payload))
    else:
        args, kwargs = callee.signature.decode(claimed.payload, callee.codec)
    for name in callee.signature.injected:
        kwargs[name] = job
    return args, kwargs
