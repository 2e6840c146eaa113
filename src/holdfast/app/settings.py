"""Which setting holds: the job's, else its task's, its queue's, the app's, the library's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, cast

import msgspec

from ..core.bound import RESULT_TTL_MS
from ..core.declaration import Settings
from ..core.duration import Duration, to_ms, ttl_ms
from ..core.limit import LIVE_SETTINGS, QueueSettings, Rate, Retention
from ..core.policy import Policy, Retry
from ..core.size import DEFAULT_SIZE
from ..core.word import check_text, check_words
from ..errors import ConfigError
from ..store.contract import Store
from .options import Adjustments, TaskOptions

LIBRARY: dict[str, Any] = {
    "retry": Retry(),
    "timeout": None,
    "lease": None,
    "priority": 0,
    "result_ttl": RESULT_TTL_MS / 1000,
    "codec": "json",
    "result_codec": "json",
    "max_payload": DEFAULT_SIZE,
    "max_result": DEFAULT_SIZE,
    "executor": None,
    "completion": "staged",
    "size": None,
    "sandbox": None,
    "on_failure": None,
    "key_required": False,
}
"""What holds where nothing else is said, times in seconds, sizes in bytes. No executor: inline for
`async def`, thread for `def`. No size: one slot, or a whole process."""


BOUND = ("size", "sandbox")
"""Settings of a place where handlers run: a queue's or an app's holds for the tasks that run where it says they do."""


class Layer(msgspec.Struct, frozen=True):
    """What one place says: its name, and the settings that it sets."""

    source: str
    values: dict[str, Any]


class JobDefaults:
    """What the jobs of a task have where their options say nothing, found out once, for its first job."""

    def __init__(self, own: Layer, of_queue: Callable[[], tuple[Layer, ...]]) -> None:
        self._own = own
        self._of_queue = of_queue

    @cached_property
    def priority(self) -> int:
        """The priority."""
        priority: int = resolve("priority", (self._own, *self._of_queue())).value
        return priority

    @cached_property
    def result_ttl_ms(self) -> int | None:
        """The result TTL that the task itself sets; a queue's is the store's to know."""
        own = self._own.values.get("result_ttl")
        return None if own is None else ttl_ms(own, "result_ttl")


class Resolved(msgspec.Struct, frozen=True):
    """A setting's value, and the place that decided it."""

    name: str
    value: Any
    source: str


def layer(source: str, **values: Any) -> Layer:
    """Return a layer of those settings that are not `None`."""
    return Layer(source, {name: value for name, value in values.items() if value is not None})


BOTH = ("result_ttl", "key_required")
"""What is said of a queue's jobs and is a setting of the queue, too, so that a reader of the store knows it."""
UNLIMITED = ("concurrency", "key_concurrency", "rate", "key_rate")
"""Settings of a queue for which `None` is a word: no limit."""


def of_queue(given: Mapping[str, object]) -> tuple[Layer, dict[str, object]]:
    """Return what is said of a queue's jobs, and the settings of the queue itself."""
    own = [name for name in TaskOptions.__annotations__ if name != "priority"]
    jobs = layer("queue", **{name: given[name] for name in own if name in given})
    left = {name: value for name, value in given.items() if name in BOTH or name not in own}
    return jobs, {name: value for name, value in left.items() if value is not None or name in UNLIMITED}


_LIBRARY_LAYER = Layer("library", LIBRARY)


def resolve(name: str, layers: Iterable[Layer]) -> Resolved:
    """Return the value of a setting by the first layer that has it."""
    known = (*layers, _LIBRARY_LAYER)
    for number, each in enumerate(known):
        bound = name in BOUND and each is not _LIBRARY_LAYER
        if name in each.values and not (bound and _place(known) != _place(known[number:])):
            return Resolved(name, each.values[name], each.source)
    raise ConfigError(f"{name!r} is not a setting; known are {', '.join(LIBRARY)}")


def _place(layers: Iterable[Layer]) -> str:
    """Return where handlers run by these layers, as far as it matters to what is bound to it."""
    executor = next(each.values["executor"] for each in layers if "executor" in each.values)
    return executor if executor in ("process", "sandbox") else "worker"


def resolve_all(layers: Iterable[Layer]) -> list[Resolved]:
    """Return every setting with the place that decided it."""
    known = tuple(layers)
    return [resolve(name, known) for name in LIBRARY]


def queue_fields(values: Mapping[str, object]) -> Settings:
    """Return what users call a queue's settings in the form in which stores keep them."""
    fields: Settings = {}
    for name, value in values.items():
        if name == "result_ttl":
            fields["result_ttl_ms"] = ttl_ms(cast("Duration | None", value), "result_ttl")
        elif name == "retention":
            fields["retention"] = _retention(value)
        elif name in ("rate", "key_rate") and value is not None:
            if not isinstance(value, Rate):
                raise ConfigError(f"{name}={value!r}: give Rate(count, per=seconds), or None for no limit")
            fields[name] = msgspec.to_builtins(value)
        elif name == "key_limits":
            fields[name] = _key_limits(value)
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


def _key_limits(value: object) -> dict[str, object]:
    """Return the limits of keys as stores keep them."""
    if not isinstance(value, Mapping):
        raise ConfigError(f"key_limits={value!r}: give a dict, such as {{'acme': 5}}")
    for key in value:
        check_text(key, "key_limits: key", "a concurrency key")
    return dict(value)


def _retention(value: object) -> object:
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
LIVE_QUEUE_SETTINGS = tuple(name.replace("result_ttl_ms", "result_ttl") for name in LIVE_SETTINGS)


def check_live(names: Iterable[str]) -> None:
    """Raise for what an operator cannot set of a queue."""
    for name in names:
        if name == "key_limits":
            raise ConfigError(
                "'key_limits' is declared in code: live, give one key a limit with limit_key(key, concurrency)"
            )
        if name not in LIVE_QUEUE_SETTINGS:
            known = ", ".join(LIVE_QUEUE_SETTINGS)
            raise ConfigError(f"{name!r} is not a setting of a queue; known are {known}")


async def adjust(store: Store, queue: str, task: str, settings: Adjustments, clear: Iterable[str]) -> Policy:
    """Put an operator's settings of a task in force; `timeout` is in seconds here."""
    check_words(queue=queue, task=task)
    wanted: dict[str, object] = {name: value for name, value in settings.items() if name != "timeout"}
    if "timeout" in settings:
        timeout = settings["timeout"]
        wanted["timeout_ms"] = None if timeout is None else to_ms(timeout, "timeout")
    cleared = ["timeout_ms" if name == "timeout" else name for name in clear]
    return await store.adjust(queue, task, wanted, cleared)
