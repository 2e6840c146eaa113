"""What code declares and operators set: read the view, apply the change that `core.declaration` decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from ...core import declaration as core
from ...core.declaration import Change, Declaration, DeclaredTask, View
from ...core.limit import QueueSettings
from ...core.policy import Policy
from ..contract import SessionCommand
from .database import Database
from .transition.claim import lane
from .transition.session import command as tell
from .tx import Tx, acting

_json = msgspec.json.Encoder(order="sorted").encode


class SqliteOperate:
    """Put in force what workers declare and what operators set."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def declare(self, declarations: Sequence[Declaration]) -> None:
        """Put in force what workers declare of queues and tasks, unless a higher version is there already."""
        await self._database.write(acting(_declare), declarations)

    async def configure(self, queue: str, set: Mapping[str, object], clear: Sequence[str] = ()) -> QueueSettings:
        """Put an operator's settings of a queue in force, above what workers declare."""
        return (await self._change(lambda tx: core.configure(read(tx, queue), set, clear))).settings()

    async def adjust(self, queue: str, task: str, set: Mapping[str, object], clear: Sequence[str] = ()) -> Policy:
        """Put an operator's settings of a task in force, above what workers declare."""
        change = await self._change(lambda tx: core.adjust(read(tx, queue, task), task, set, clear))
        return change.policy(task)

    async def limit_key(self, queue: str, key: str, concurrency: int | None) -> None:
        """Give one key a concurrency of its own, or take it away."""
        await self._change(lambda tx: core.limit_key(read(tx, queue), key, concurrency))

    async def command(self, session: str, command: SessionCommand) -> bool:
        """Tell a worker to drain or stop; return whether it is alive."""
        return await self._database.write(acting(tell), session, command)

    async def _change(self, decide: Callable[[Tx], Change]) -> View:
        return await self._database.write(acting(lambda tx: apply(tx, decide(tx))))


def _declare(tx: Tx, declarations: Sequence[Declaration]) -> None:
    for declaration in declarations:
        view = read(tx, declaration.queue, *declaration.tasks)
        apply(tx, core.declare(view, declaration))


def read(tx: Tx, queue: str, *tasks: str) -> View:
    """Return what is stored of a queue and of these tasks. What cannot be decoded raises, and is set aside."""
    tx.queue(queue)  # makes it
    row = tx.row("queue", "get", queue=queue)
    assert row is not None
    declared = {
        task: DeclaredTask(version, msgspec.json.decode(text, type=Policy))
        for task, version, text in tx.run("queue", "policies", queue=queue)
        if task in tasks
    }
    adjusted = {
        task: msgspec.json.decode(text) for task, text in tx.run("queue", "adjustments", queue=queue) if task in tasks
    }
    return View(
        queue=queue, version=row["version"], declared=msgspec.json.decode(row["declared"]),
        operator=msgspec.json.decode(row["operator"]), tasks=declared, adjusted=adjusted,
    )  # fmt: skip


def apply(tx: Tx, change: Change) -> View:
    """Write a change, and do what follows from it; return what is stored now."""
    view, queue = change.view, change.view.queue
    if change.queue:
        declared, operator = _json(view.declared), _json(view.operator)
        tx.run("queue", "set", queue=queue, version=view.version, declared=declared, operator=operator)
    for task in change.tasks:
        _put_task(tx, view, task)
    if change.key is not None:
        _put_limit(tx, queue, change.key, change.key_concurrency)
    if change:
        tx.run("queue", "touch", queue=queue)
    if change.action is not None:
        tx.append_action(queue, change.action)
    if change.recheck:
        lane.recheck_queue(tx, queue) if change.key is None else lane.recheck(tx, queue, change.key)
    if change.wake:
        tx.wake(queue, change.wake)
    return view


def _put_task(tx: Tx, view: View, task: str) -> None:
    queue = view.queue
    if known := view.tasks.get(task):
        tx.run("queue", "put_policy", queue=queue, task=task, version=known.version, declared=_json(known.policy))
    if operator := view.adjusted.get(task):
        tx.run("queue", "adjust", queue=queue, task=task, operator=_json(operator))
    else:
        tx.run("queue", "clear_adjustment", queue=queue, task=task)


def _put_limit(tx: Tx, queue: str, key: str, concurrency: int | None) -> None:
    if concurrency is None:
        tx.run("lane", "clear_limit", queue=queue, key=key)
    else:
        tx.run("lane", "set_limit", queue=queue, key=key, concurrency=concurrency)
