"""What code declares and operators set: read the view, apply the change that `core.declaration` decides.

The change is written in one step, and only if nothing was changed since the view was read; else it is decided anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from ...core import declaration as core
from ...core.action import commanded, signed
from ...core.declaration import Change, Declaration, DeclaredTask, Settings, View
from ...core.limit import QueueSettings
from ...core.policy import Policy, adjusted
from ...errors import ConfigError, StoreBusy
from ..contract import SessionCommand
from .arguments.inspect import OperateCall
from .arguments.work import CommandCall
from .caller import RedisCaller

log = logging.getLogger("holdfast")

T = TypeVar("T")
MOST_TRIES = 50
_json = msgspec.json.Encoder(order="sorted").encode


class RedisOperate:
    """Settings and policies of the queues of one namespace."""

    def __init__(self, caller: RedisCaller) -> None:
        self._caller = caller

    async def declare(self, declarations: Sequence[Declaration]) -> None:
        """Put in force what a worker declares of queues and their tasks, unless a higher version is there already."""
        for declaration in declarations:
            await self._declare(declaration)

    async def _declare(self, declaration: Declaration) -> None:
        await self._change(declaration.queue, lambda view: core.declare(view, declaration))

    async def configure(self, queue: str, set: Mapping[str, object], clear: Sequence[str]) -> QueueSettings:
        """Put an operator's settings of a queue in force, above what workers declare."""
        return (await self._change(queue, lambda view: core.configure(view, set, clear))).settings()

    async def adjust(self, queue: str, task: str, set: Mapping[str, object], clear: Sequence[str]) -> Policy:
        """Put an operator's settings of a task in force, above what workers declare."""
        return (await self._change(queue, lambda view: core.adjust(view, task, set, clear))).policy(task)

    async def limit_key(self, queue: str, key: str, concurrency: int | None) -> None:
        """Give one key a concurrency of its own, or take it away."""
        await self._change(queue, lambda view: core.limit_key(view, key, concurrency))

    async def command(self, session: str, command: SessionCommand) -> bool:
        """Tell a worker to drain or stop, in each queue that it serves; return whether it is alive."""
        action, is_alive = signed(commanded(session, command)), False
        for queue in sorted(await self._caller.names()):
            call = CommandCall(session=session, command=command, action=None if is_alive else action)
            is_alive = await self._caller.call(queue, call) == b"ok" or is_alive
        return is_alive

    async def policies(self, queue: str) -> dict[str, Policy]:
        """Return the policy in force of every task of a queue."""
        return (await self._read(queue))[1].policies()

    async def layers(self, queue: str) -> View:
        """Return what workers declared of a queue and its tasks, and what operators set above it."""
        return (await self._read(queue))[1]

    async def _change(self, queue: str, decide: Callable[[View], Change]) -> View:
        """Return what is stored of a queue once the change that `decide` makes of it is in force."""
        await self._caller.know(queue)
        for _ in range(MOST_TRIES):
            revision, view = await self._read(queue)
            if await self._apply(decided := decide(view), revision):
                return decided.view
        raise StoreBusy(f"queue {queue!r}: its settings were changed by others over and over; try again")

    async def _apply(self, change: Change, revision: int) -> bool:
        """Write a change; return `False`, with nothing written, when the settings are of another revision by now."""
        queue, writes = change.view.queue, _writes(change)
        call = OperateCall(
            queue=queue,
            revision=str(revision),
            wake=change.wake,
            recheck="" if not change.recheck else "all" if change.key is None else "one",
            key=None if change.key is None else f"={change.key}",
            action=signed(change.action),
            count=len(writes),
        )
        return await self._caller.call(queue, call, [part for write in writes for part in write]) == b"ok"

    async def _read(self, queue: str) -> tuple[int, View]:
        """Return the revision of a queue's settings, and what is stored of them. What cannot be read does not count."""
        keys = self._caller.keys
        key = keys.declared(queue)
        commands = [
            ["HMGET", key, "revision", "version", "declared", "operator"],
            ["HGETALL", keys.of(queue, "declared")],
            ["HGETALL", keys.of(queue, "adjusted")],
        ]
        (revision, version, declared, operator), tasks, operators = await self._caller.server.ask_all(commands, key)
        return _number(revision), View(
            queue=queue,
            version=_number(version),
            declared=_readable(declared or b"{}", Settings) or {},
            operator=_readable(operator or b"{}", Settings) or {},
            tasks={name: known for name, text in _pairs(tasks) if (known := _readable(text, DeclaredTask)) is not None},
            adjusted={name: set for name, text in _pairs(operators) if (set := _adjustment(name, text)) is not None},
        )


def _writes(change: Change) -> list[tuple[str, str, bytes]]:
    """Return what is to be written: where, the field, and its value; an empty value removes the field."""
    view = change.view
    writes = []
    if change.queue:
        writes += [
            ("queue", "version", str(view.version).encode()),
            ("queue", "declared", _json(view.declared)),
            ("queue", "operator", _json(view.operator)),
            ("queue", "settings", _json(view.settings())),
        ]
    for task in change.tasks:
        declared, operator = view.tasks.get(task), view.adjusted.get(task)
        writes += [
            ("declared", task, _json(declared) if declared else b""),
            ("adjusted", task, _json(operator) if operator else b""),
            ("policies", task, _json(view.policy(task)) if declared or operator else b""),
        ]
    if change.key is not None:
        value = b"" if change.key_concurrency is None else str(change.key_concurrency).encode()
        writes.append(("limits", change.key, value))
    return writes


def _readable(text: bytes, type: type[T]) -> T | None:
    """Return what is stored; nothing where that is garbage, as if it had never been set."""
    try:
        return msgspec.json.decode(text, type=type)
    except msgspec.MsgspecError as error:
        log.warning("setting_unread: it cannot be read and does not count; set it again: %s", error)
        return None


def _adjustment(task: str, text: bytes) -> Settings | None:
    operator = _readable(text, Settings)
    try:
        adjusted(Policy(), operator or {})
    except ConfigError as error:
        log.warning("setting_unread: what was set of task %s cannot be read and does not count: %s", task, error)
        return None
    return operator


def _number(text: bytes | None) -> int:
    return int(text) if text and text.isdigit() else 0


def _pairs(flat: list[bytes]) -> list[tuple[str, bytes]]:
    names = (name.decode("utf-8", "replace") for name in flat[::2])
    return list(zip(names, flat[1::2], strict=True))
