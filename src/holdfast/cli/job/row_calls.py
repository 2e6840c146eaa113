"""The job that a line of a file names: a call of a task, or a payload of a plain queue, with options of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ...app.bulk import Call
from ...app.queue import AnyQueue
from ...app.task import AnyTask
from ...errors import ConfigError, HoldfastError
from ...json.call import typed_arguments, typed_payload
from ..parse import json_or_text, seconds
from .rows import Row, WrongRow

Given = dict[str, Any]


def _tags(value: object) -> list[str]:
    if isinstance(value, str):
        return [word for part in value.split(",") if (word := part.strip())]
    return value  # type: ignore[return-value]  # which the options check


def _delay(value: object) -> object:
    return seconds(value, "_delay") if isinstance(value, str) else value


def _number(value: object) -> object:
    return json_or_text(value) if isinstance(value, str) else value


OPTIONS: dict[str, tuple[str, Callable[[object], object]]] = {
    "_id": ("job_id", lambda value: value),
    "_delay": ("delay", _delay),
    "_priority": ("priority", _number),
    "_key": ("key", lambda value: value),
    "_tags": ("tags", _tags),
}
"""What a line may say of its job beside the arguments, and the option that it is."""


class RowCalls(Protocol):
    """What makes a job of a line."""

    def call(self, value: Any, are_texts: bool, options: Given) -> Call[object]:
        """Return the job of what stands on a line, without its options."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What the arguments are called, and their types."""


class TaskRowCalls:
    """Lines that are calls of a task: objects by parameter, or arrays in their order."""

    def __init__(self, task: AnyTask, fitting: Callable[[Any, str], object]) -> None:
        self._task = task
        self._fitting = fitting
        self.parameters: Mapping[str, Any] = task.signature.type.__annotations__
        # What is looked up once is copied by `options`; each line with options of its own would look it up anew.
        _ = task.codec, task.max_payload, task.key_required

    def call(self, value: Any, are_texts: bool, options: Given) -> Call[object]:
        """Return the call, with values of the types that the handler wants."""
        if type(value) not in (dict, list):
            raise ConfigError("it is neither an object of arguments nor an array of them")
        if are_texts:
            value = {name: self._typed(name, text) for name, text in value.items() if text or self._needs(name)}
        args, kwargs = (value, {}) if type(value) is list else ((), value)
        positional, named = typed_arguments(self._task, args, kwargs)
        target = self._task.options(**options) if options else self._task
        return target.args(*positional, **named)

    def _typed(self, name: str, text: str) -> object:
        return self._fitting(self.parameters.get(name, Any), text)

    def _needs(self, name: str) -> bool:
        """An empty cell is the default of its parameter, where there is one."""
        return name in self._task.signature.required


class PlainRowCalls:
    """Lines that are payloads of a plain queue."""

    parameters: Mapping[str, Any] = {}

    def __init__(self, queue: AnyQueue) -> None:
        self._queue = queue

    def call(self, value: Any, are_texts: bool, options: Given) -> Call[object]:
        """Return the payload as the queue's type wants it."""
        payload = {name: json_or_text(text) for name, text in value.items()} if are_texts else value
        return self._queue.args(typed_payload(self._queue, payload), **options)


def call_of(row: Row, calls: RowCalls, common: Given, id_prefix: str | None) -> Call[object] | WrongRow:
    """Return the job of a line, or what is wrong with it; what the line says beats what holds for all."""
    try:
        value, own = _split(row, calls.parameters)
        if id_prefix is not None:
            own.setdefault("job_id", f"{id_prefix}{row.line}")
        return calls.call(value, row.are_texts, {**common, **own})
    except (HoldfastError, TypeError) as error:
        return WrongRow(row.line, str(error))


def _split(row: Row, parameters: Mapping[str, Any]) -> tuple[Any, Given]:
    """Return what stands on a line without its options, and these."""
    if type(row.value) is not dict:
        return row.value, {}
    rest, options = {}, {}
    for name, value in row.value.items():
        if name in parameters or not name.startswith("_"):
            rest[name] = value
        elif name not in OPTIONS:
            raise ConfigError(f"{name!r} is not an option of a line; known are {', '.join(OPTIONS)}")
        elif value not in ("", None):
            option, read = OPTIONS[name]
            options[option] = read(value)
    return rest, options
