"""A call of a task, or a payload of a plain queue, from JSON: values become what the annotations want."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..app.queue import AnyQueue
from ..app.task import AnyTask
from ..codec import codec
from ..errors import ConfigError, PayloadError


def typed_arguments(
    task: AnyTask, args: Sequence[object], kwargs: Mapping[str, object]
) -> tuple[tuple[object, ...], dict[str, Any]]:
    """Return the arguments as the handler's annotations want them."""
    try:
        payload = msgspec.json.encode(task.signature.bind(args, kwargs))
        return task.signature.decode(payload, codec("json"))
    except TypeError as error:
        cause = error.__cause__ if isinstance(error, PayloadError) and error.__cause__ else error
        raise ConfigError(f"task {task.name!r}: {cause}") from error


def typed_payload(queue: AnyQueue, payload: object) -> object:
    """Return a plain payload as the queue's type wants it."""
    kind = queue.payload_type
    try:
        return payload if kind is Any else codec("json").decode(msgspec.json.encode(payload), kind)
    except PayloadError as error:
        raise ConfigError(f"queue {queue.name!r}: {error}") from error
