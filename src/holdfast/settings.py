"""Which setting holds: the job's, else its task's, its queue's, the app's, the library's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from .core.duration import to_ms
from .core.limit import HOUR_MS, QueueSettings, Rate, Retention
from .core.policy import Policy, Retry
from .core.size import DEFAULT_SIZE
from .core.word import check_words
from .errors import ConfigError
from .store.contract import Store

LIBRARY: dict[str, Any] = {
    "retry": Retry(),
    "timeout": None,
    "priority": 0,
    "result_ttl": HOUR_MS / 1000,
    "codec": "json",
    "result_codec": "json",
    "max_payload": DEFAULT_SIZE,
    "max_result": DEFAULT_SIZE,
    "executor": None,
    "completion": "staged",
    "size": None,
    "sandbox": None,
    "on_failure": None,
}
"""What holds when nobody says otherwise, times in seconds, sizes in bytes. No executor: inline for
`async def`, thread for `def`. No size: one slot, or a whole process."""


class Layer(msgspec.Struct, frozen=True):
    """What one place says: its name, and the settings that it sets."""

    source: str
    values: dict[str, Any]


class Won(msgspec.Struct, frozen=True):
    """A setting's value, and the place that decided it."""

    name: str
    value: Any
    source: str


def layer(source: str, **values: Any) -> Layer:
    """Return a layer of those settings that are not `None`."""
    return Layer(source, {name: value for name, value in values.items() if value is not None})


_LIBRARY_LAYER = Layer("library", LIBRARY)


def resolve(name: str, layers: Iterable[Layer]) -> Won:
    """Return the value of a setting by the first layer that has it."""
    for each in (*layers, _LIBRARY_LAYER):
        if name in each.values:
            return Won(name, each.values[name], each.source)
    raise ConfigError(f"{name!r} is not a setting; known are {', '.join(LIBRARY)}")


def resolve_all(layers: Iterable[Layer]) -> list[Won]:
    """Return every setting with the place that decided it."""
    known = tuple(layers)
    return [resolve(name, known) for name in LIBRARY]


def queue_fields(values: dict[str, Any]) -> dict[str, Any]:
    """Return what users call a queue's settings in the form in which stores keep them."""
    fields: dict[str, Any] = {}
    for name, value in values.items():
        if name == "result_ttl":
            fields["result_ttl_ms"] = to_ms(value, "result_ttl")
        elif name == "retention":
            fields["retention"] = _retention(value)
        elif name in ("rate", "key_rate") and value is not None:
            if not isinstance(value, Rate):
                raise ConfigError(f"{name}={value!r}: give Rate(count, per=seconds), or None for no limit")
            fields[name] = msgspec.to_builtins(value)
        elif name in QueueSettings.__struct_fields__:
            fields[name] = value
        else:
            raise ConfigError(f"{name!r} is not a setting of a queue; known are {', '.join(QUEUE_SETTINGS)}")
    try:
        msgspec.convert(fields, QueueSettings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"queue setting: {error}") from None
    except UnicodeEncodeError:
        named = ", ".join(fields)
        raise ConfigError(f"queue setting: {named}: one holds half a surrogate pair, which is no text") from None
    return fields


def _retention(value: Any) -> Any:
    """Return a `Retention`, or a dict of its fields, as stores keep it."""
    if isinstance(value, dict):
        if unknown := [name for name in value if name not in Retention.__struct_fields__]:
            known = ", ".join(Retention.__struct_fields__)
            raise ConfigError(f"retention: {unknown[0]!r} is not a field of it; known are {known}")
        try:
            value = msgspec.convert(value, Retention)
        except msgspec.ValidationError as error:
            raise ConfigError(f"retention: {error}") from None
    if not isinstance(value, Retention):
        raise ConfigError(f"retention={value!r}: give Retention(completed=..., failed=..., failed_count=...)")
    return msgspec.to_builtins(value)


QUEUE_SETTINGS = tuple(name.replace("result_ttl_ms", "result_ttl") for name in QueueSettings.__struct_fields__)


async def adjust(store: Store, queue: str, task: str, settings: Mapping[str, Any], clear: Iterable[str]) -> Policy:
    """An operator's settings of a task are in force; `timeout` is in seconds here."""
    check_words(queue=queue, task=task)
    wanted = dict(settings)
    if "timeout" in wanted:
        timeout = wanted.pop("timeout")
        wanted["timeout_ms"] = None if timeout is None else to_ms(timeout, "timeout")
    cleared = ["timeout_ms" if name == "timeout" else name for name in clear]
    return await store.adjust(queue, task, wanted, cleared)
