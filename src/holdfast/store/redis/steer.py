"""Settings and policies: decided here on what was read, written in one step if nothing was changed meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from ...core.declaration import declared_settings, wins
from ...core.limit import QueueSettings
from ...core.policy import ADJUSTABLE, Policy, adjusted
from ...errors import ConfigError, StoreBusy
from ..contract import Declaration
from .keys import Keys
from .server import Server

log = logging.getLogger("holdfast")

T = TypeVar("T")
MOST_TRIES = 50
ALL = -1
_EMPTY = Policy()
_json = msgspec.json.Encoder(order="sorted").encode
Write = tuple[str, str, bytes]


class Declared(msgspec.Struct):
    """What workers said of a task."""

    version: int
    policy: Policy


class View(msgspec.Struct):
    """A queue's settings and policies as they were read."""

    revision: int
    version: int
    declared: dict[str, Any]
    operator: dict[str, Any]
    tasks: dict[str, Declared]
    adjusted: dict[str, dict[str, Any]]

    def settings(self) -> QueueSettings:
        """Return the settings in force."""
        return msgspec.convert({**self.declared, **self.operator}, QueueSettings)

    def policy(self, task: str) -> Policy:
        """Return the policy in force of a task."""
        declared = self.tasks.get(task)
        policy, operator = declared.policy if declared else _EMPTY, self.adjusted.get(task, {})
        try:
            return adjusted(policy, operator)
        except ConfigError as error:
            log.warning("what was set of task %s cannot be read and does not count: %s", task, error)
            return policy

    def policies(self) -> dict[str, Policy]:
        """Return the policy in force of every task."""
        return {task: self.policy(task) for task in {**self.tasks, **self.adjusted}}


class Plan(msgspec.Struct):
    """What is to be written, and what follows from it."""

    writes: list[Write] = []
    recheck: str = ""
    key: str | None = None
    wake: int = 0


async def read(server: Server, keys: Keys, queue: str) -> View:
    """Return what is set of a queue."""
    key = keys.declared(queue)
    commands = [
        ["HMGET", key, "revision", "version", "declared", "operator"],
        ["HGETALL", keys.of(queue, "declared")],
        ["HGETALL", keys.of(queue, "adjusted")],
    ]
    (revision, version, declared, operator), tasks, operators = await server.ask_all(commands, key)
    return View(
        revision=_number(revision),
        version=_number(version),
        declared=_readable(declared or b"{}", dict[str, Any]) or {},
        operator=_readable(operator or b"{}", dict[str, Any]) or {},
        tasks={name: known for name, text in _pairs(tasks) if (known := _readable(text, Declared)) is not None},
        adjusted={
            name: set for name, text in _pairs(operators) if (set := _readable(text, dict[str, Any])) is not None
        },
    )


def _readable(text: bytes, type: Any) -> Any:
    """Return what is stored; nothing where that is garbage, as if it had never been set."""
    try:
        return msgspec.json.decode(text, type=type)
    except msgspec.MsgspecError as error:
        log.warning("a setting cannot be read and does not count; set it again: %s", error)
        return None


def _number(text: bytes | None) -> int:
    return int(text) if text and text.isdigit() else 0


def _pairs(flat: list[bytes]) -> list[tuple[str, bytes]]:
    names = (name.decode("utf-8", "replace") for name in flat[::2])
    return list(zip(names, flat[1::2], strict=True))


async def change(server: Server, keys: Keys, queue: str, now: str, decide: Callable[[View], tuple[Plan, T]]) -> T:
    """Return what `decide` says beside its plan, once the plan is in force."""
    key = keys.declared(queue)
    for _ in range(MOST_TRIES):
        view = await read(server, keys, queue)
        plan, result = decide(view)
        flat = [part for write in plan.writes for part in write]
        marked = "" if plan.key is None else f"={plan.key}"
        reply = await server.call(
            "steer", [key], now, queue, view.revision, plan.wake, plan.recheck, marked, len(plan.writes), *flat
        )
        if reply == b"ok":
            return result
    raise StoreBusy(f"queue {queue!r}: its settings were changed by others over and over; try again")


def _merged(view: View) -> Write:
    return "queue", "settings", _json(view.settings())


def declare(declaration: Declaration) -> Callable[[View], tuple[Plan, None]]:
    """What a worker says of a queue and its tasks holds, unless a higher version is there already."""

    def decide(view: View) -> tuple[Plan, None]:
        plan = Plan()
        changed = _declare_queue(view, declaration, plan)
        for task, policy in declaration.tasks.items():
            changed = _declare_task(view, declaration, task, policy, plan) or changed
        if changed:
            plan.recheck = "all"
            plan.wake = view.settings().concurrency or ALL
        return plan, None

    return decide


def _declare_queue(view: View, declaration: Declaration, plan: Plan) -> bool:
    msgspec.convert(declaration.settings, QueueSettings)
    new = declared_settings(
        f"queue {declaration.queue!r}", view.declared, view.version, declaration.settings, declaration.version,
        partial=declaration.partial,
    )  # fmt: skip
    if new is None:
        return False
    changed, view.declared = new != view.declared, new
    plan.writes += [
        ("queue", "version", str(declaration.version).encode()),
        ("queue", "declared", _json(new)),
        _merged(view),
    ]
    return changed


def _declare_task(view: View, declaration: Declaration, task: str, policy: Policy, plan: Plan) -> bool:
    stored = view.tasks.get(task)
    what = f"task {task!r} of queue {declaration.queue!r}"
    if stored is not None:
        if stored.policy == policy and declaration.version <= stored.version:
            return False
        if stored.policy != policy and not wins(what, stored.policy, stored.version, policy, declaration.version):
            return False
    view.tasks[task] = Declared(declaration.version, policy)
    plan.writes += [
        ("declared", task, _json(view.tasks[task])),
        ("policies", task, _json(view.policy(task))),
    ]
    return True


def configure(queue: str, set: Mapping[str, Any], clear: Sequence[str]) -> Callable[[View], tuple[Plan, QueueSettings]]:
    """An operator's settings hold above what workers declare, until they are cleared."""

    def decide(view: View) -> tuple[Plan, QueueSettings]:
        unknown = [name for name in (*set, *clear) if name not in QueueSettings.__struct_fields__]
        if unknown:
            known = ", ".join(QueueSettings.__struct_fields__)
            raise ConfigError(f"{unknown[0]!r} is not a setting of a queue; known are {known}")
        before = view.settings()
        view.operator = {name: value for name, value in {**view.operator, **set}.items() if name not in clear}
        try:
            settings = view.settings()
        except msgspec.ValidationError as error:
            raise ConfigError(f"queue {queue!r}: {error}") from None
        writes = [("queue", "operator", msgspec.json.encode(view.operator)), _merged(view)]
        keyed = (settings.key_concurrency, settings.key_rate) != (before.key_concurrency, before.key_rate)
        return Plan(writes, "all" if keyed else "", None, settings.concurrency or ALL), settings

    return decide


def adjust(task: str, set: Mapping[str, Any], clear: Sequence[str]) -> Callable[[View], tuple[Plan, Policy]]:
    """An operator's settings of a task hold above what workers declare, until they are cleared."""

    def decide(view: View) -> tuple[Plan, Policy]:
        operator = {**view.adjusted.get(task, {}), **set}
        operator = {name: value for name, value in operator.items() if name not in clear}
        adjusted(Policy(), operator)
        if unknown := [name for name in clear if name not in ADJUSTABLE]:
            raise ConfigError(f"{unknown[0]!r} is not a setting of a task; known are {', '.join(ADJUSTABLE)}")
        view.adjusted.pop(task, None)
        if operator:
            view.adjusted[task] = operator
        policy = view.policy(task)
        known = task in view.tasks or bool(operator)
        writes = [
            ("adjusted", task, _json(operator) if operator else b""),
            ("policies", task, _json(policy) if known else b""),
        ]
        return Plan(writes), policy

    return decide


def limit_key(key: str, concurrency: int | None) -> Callable[[View], tuple[Plan, None]]:
    """One key has a concurrency of its own, or no longer."""
    if concurrency is not None and (type(concurrency) is not int or concurrency < 1):
        raise ConfigError(
            f"key {key!r}: concurrency={concurrency!r}: a whole number from 1, or None for the queue's own"
        )
    value = b"" if concurrency is None else str(concurrency).encode()
    return lambda view: (Plan([("limits", key, value)], "one", key, concurrency or ALL), None)
