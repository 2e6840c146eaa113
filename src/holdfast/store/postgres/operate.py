"""What code declares and operators set: read the view, apply the change that `core.declaration` decides."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from ...core import declaration as core
from ...core.action import commanded, signed
from ...core.declaration import Change, Declaration, DeclaredTask, Settings, View
from ...core.limit import QueueSettings
from ...core.policy import Policy, adjusted
from ...core.state import State
from ...errors import ConfigError
from ..contract import SessionCommand
from . import sql
from .connection.caller import PostgresCaller
from .connection.connect import Connection

log = logging.getLogger("holdfast")
T = TypeVar("T")
_json = msgspec.json.Encoder(order="sorted").encode

_QUEUE = """
UPDATE holdfast.queue SET revision = revision + 1, version = %(version)s, declared = %(declared)s::jsonb,
    operator = %(operator)s::jsonb, paused = %(paused)s, concurrency = %(concurrency)s,
    key_concurrency = %(key_concurrency)s, rate_count = %(rate_count)s, rate_per = %(rate_per)s,
    rate_burst = %(rate_burst)s, key_rate_count = %(key_rate_count)s, key_rate_per = %(key_rate_per)s,
    key_rate_burst = %(key_rate_burst)s, result_ttl_ms = %(result_ttl_ms)s, completed_ms = %(completed_ms)s,
    failed_ms = %(failed_ms)s, failed_count = %(failed_count)s, payloads = %(payloads)s
WHERE name = %(name)s
"""
_POLICY = """
INSERT INTO holdfast.policy (queue, task, version, declared, operator, failures, stalls, timeouts, releases, attempts,
    snoozes, initial, multiplier, maximum, jitter, timeout_ms, on_failure_queue, on_failure_task,
    on_failure_priority)
VALUES (%(queue)s, %(task)s, %(version)s, %(declared)s::jsonb, %(operator)s::jsonb, %(failures)s, %(stalls)s,
    %(timeouts)s, %(releases)s, %(attempts)s, %(snoozes)s, %(initial)s, %(multiplier)s, %(maximum)s, %(jitter)s,
    %(timeout_ms)s, %(on_queue)s, %(on_task)s, %(on_priority)s)
ON CONFLICT (queue, task) DO UPDATE SET version = excluded.version, declared = excluded.declared,
    operator = excluded.operator, failures = excluded.failures, stalls = excluded.stalls,
    timeouts = excluded.timeouts, releases = excluded.releases, attempts = excluded.attempts,
    snoozes = excluded.snoozes, initial = excluded.initial,
    multiplier = excluded.multiplier, maximum = excluded.maximum, jitter = excluded.jitter,
    timeout_ms = excluded.timeout_ms, on_failure_queue = excluded.on_failure_queue,
    on_failure_task = excluded.on_failure_task, on_failure_priority = excluded.on_failure_priority
"""
_ACTION = "SELECT holdfast.append_action(holdfast.clock(%s::bigint), %s, %s::jsonb)"


class PostgresOperate:
    """Settings of queues, policies of tasks and limits of keys: each call is one transaction."""

    def __init__(self, caller: PostgresCaller) -> None:
        self._caller = caller

    async def declare(self, declarations: Sequence[Declaration]) -> None:
        """Put in force what workers declare of queues and tasks, unless a higher version is there already."""
        await self._transact(lambda transaction: transaction.declare(declarations))

    async def configure(self, queue: str, set: Mapping[str, Any], clear: Sequence[str] = ()) -> QueueSettings:
        """Put an operator's settings of a queue in force, above what workers declare."""
        return await self._transact(lambda transaction: transaction.configure(queue, set, clear))

    async def adjust(self, queue: str, task: str, set: Mapping[str, Any], clear: Sequence[str] = ()) -> Policy:
        """Put an operator's settings of a task in force, above what workers declare."""
        return await self._transact(lambda transaction: transaction.adjust(queue, task, set, clear))

    async def limit_key(self, queue: str, key: str, concurrency: int | None) -> None:
        """Give one key a concurrency of its own, or take it away."""
        await self._transact(lambda transaction: transaction.limit_key(queue, key, concurrency))

    async def command(self, session: str, command: SessionCommand) -> bool:
        """Tell a worker to drain or stop; return whether it is alive."""
        action = signed(commanded(session, command))
        return bool(await self._caller.value("command", session=session, command=command, action=action))

    async def _transact(self, work: Callable[[OperateTransaction], Awaitable[T]]) -> T:
        caller = self._caller

        async def transaction(connection: Connection, again: bool) -> T:
            async with connection.transaction():
                await connection.execute(sql.LOCALLY)
                return await work(OperateTransaction(connection, caller.address.schema, caller.now()))

        return await caller.run(transaction, repeatable=True)


class OperateTransaction:
    """Settings and policies, read and written in one transaction under the queue's lock."""

    def __init__(self, connection: Connection, schema: str, now: str | None) -> None:
        self._connection = connection
        self._schema = schema
        self._now = now

    async def declare(self, declarations: Sequence[Declaration]) -> None:
        """Put in force what workers declare of queues and tasks, unless a higher version is there already.

        Where it is in force already, no queue is locked: a worker that starts must not wait for a caller's open
        transaction.
        """
        if not any([await self._is_news(declaration) for declaration in declarations]):
            return
        await self._lock(*(declaration.queue for declaration in declarations))
        for declaration in declarations:
            await self._apply(core.declare(await self._view(declaration.queue), declaration))

    async def configure(self, queue: str, set: Mapping[str, object], clear: Sequence[str]) -> QueueSettings:
        """Put an operator's settings of a queue in force, above what workers declare."""
        await self._lock(queue)
        return (await self._apply(core.configure(await self._view(queue), set, clear))).settings()

    async def adjust(self, queue: str, task: str, set: Mapping[str, object], clear: Sequence[str]) -> Policy:
        """Put an operator's settings of a task in force, above what workers declare."""
        await self._lock(queue)
        return (await self._apply(core.adjust(await self._view(queue), task, set, clear))).policy(task)

    async def limit_key(self, queue: str, key: str, concurrency: int | None) -> None:
        """Give one key a concurrency of its own, or take it away."""
        await self._lock(queue)
        await self._apply(core.limit_key(await self._view(queue), key, concurrency))

    async def _lock(self, *queues: str) -> None:
        await self._run("SELECT holdfast.lock_queues(%s::text[])", (list(queues),))

    async def _is_news(self, declaration: Declaration) -> bool:
        view = await self._read(declaration.queue)
        return view is None or bool(core.declare(view, declaration))

    async def _view(self, queue: str) -> View:
        view = await self._read(queue)
        assert view is not None, "to lock a queue makes it"
        return view

    async def _read(self, queue: str) -> View | None:
        """Return what is stored of a queue, `None` when it is not there. What cannot be read does not count."""
        found = await self._run(
            "SELECT version, declared::text, operator::text FROM holdfast.queue WHERE name = %s", (queue,)
        )
        if not found:
            return None
        ((version, declared, operator),) = found
        tasks = await self._run(
            "SELECT task, version, declared::text, operator::text FROM holdfast.policy WHERE queue = %s", (queue,)
        )
        return View(
            queue=queue,
            version=version,
            declared=_readable(queue, declared, Settings) or {},
            operator=_readable(queue, operator, Settings) or {},
            tasks={
                task: DeclaredTask(version or 0, policy)
                for task, version, text, _ in tasks
                if (policy := _readable(task, text, Policy)) is not None
            },
            adjusted={task: set for task, _, _, text in tasks if (set := _adjustment(task, text)) is not None},
        )

    async def _apply(self, change: Change) -> View:
        """Write a change, and do what follows from it; return what is stored now."""
        view, queue = change.view, change.view.queue
        if change.queue:
            await self._run(_QUEUE, _queue_values(view))
        for task in change.tasks:
            await self._put_task(view, task)
        if change.key is not None:
            await self._put_limit(queue, change.key, change.key_concurrency)
        if change.action is not None:
            await self._run(_ACTION, (self._now, queue, signed(change.action)))
        if change.recheck:
            await self._recheck(queue, change.key)
        if change.wake:
            await self._run("SELECT holdfast.wake(%s, %s::bigint)", (queue, change.wake))
        return view

    async def _put_task(self, view: View, task: str) -> None:
        if task in view.tasks or task in view.adjusted:
            await self._run(_POLICY, _policy_values(view, task))
        else:
            await self._run("DELETE FROM holdfast.policy WHERE queue = %s AND task = %s", (view.queue, task))

    async def _put_limit(self, queue: str, key: str, concurrency: int | None) -> None:
        if concurrency is None:
            await self._run("DELETE FROM holdfast.key_limit WHERE queue = %s AND key = %s", (queue, key))
        else:
            await self._run(
                "INSERT INTO holdfast.key_limit (queue, key, concurrency) VALUES (%s, %s, %s)"
                " ON CONFLICT (queue, key) DO UPDATE SET concurrency = excluded.concurrency",
                (queue, key, concurrency),
            )

    async def _recheck(self, queue: str, key: str | None) -> None:
        if key is None:
            await self._run("SELECT holdfast.refresh_lanes(holdfast.clock(%s::bigint), %s)", (self._now, queue))
        else:
            await self._run("SELECT holdfast.refresh_lane(holdfast.clock(%s::bigint), %s, %s)", (self._now, queue, key))

    async def _run(self, statement: str, values: Sequence[object] | Mapping[str, object]) -> list[tuple[Any, ...]]:
        cursor = await self._connection.execute(sql.rename(statement, self._schema), values)
        return await cursor.fetchall() if cursor.description else []


def _queue_values(view: View) -> dict[str, object]:
    settings = view.settings()
    rate, key_rate, kept = settings.rate, settings.key_rate, settings.retention
    return {
        "name": view.queue,
        "version": view.version,
        "declared": _json(view.declared).decode(),
        "operator": _json(view.operator).decode(),
        "paused": settings.paused,
        "concurrency": settings.concurrency,
        "key_concurrency": settings.key_concurrency,
        "rate_count": rate and rate.count,
        "rate_per": rate and rate.per,
        "rate_burst": rate and rate.burst,
        "key_rate_count": key_rate and key_rate.count,
        "key_rate_per": key_rate and key_rate.per,
        "key_rate_burst": key_rate and key_rate.burst,
        "result_ttl_ms": settings.result_ttl_ms,
        "completed_ms": kept.kept_ms(State.COMPLETED),
        "failed_ms": kept.kept_ms(State.FAILED),
        "failed_count": kept.failed_count,
        "payloads": settings.history == "payloads",
    }


def _policy_values(view: View, task: str) -> dict[str, object]:
    declared, operator, policy = view.tasks.get(task), view.adjusted.get(task), view.policy(task)
    on_queue, on_task = policy.on_failure or (None, None)
    return {
        "queue": view.queue,
        "task": task,
        "version": declared.version if declared else 0,
        "declared": _json(declared.policy).decode() if declared else None,
        "operator": _json(operator).decode() if operator else None,
        "timeout_ms": policy.timeout_ms,
        "on_queue": on_queue,
        "on_task": on_task,
        "on_priority": policy.on_failure_priority,
        **msgspec.structs.asdict(policy.retry),
    }


def _readable(what: str, text: str | None, type: type[T]) -> T | None:
    """Return what is stored; nothing where that is garbage, as if it had never been set."""
    try:
        return None if text is None else msgspec.json.decode(text, type=type)
    except msgspec.MsgspecError as error:
        log.warning(
            "setting_unread: what was set of %s cannot be read and does not count; set it again: %s", what, error
        )
        return None


def _adjustment(task: str, text: str | None) -> Settings | None:
    operator = _readable(task, text, Settings)
    try:
        adjusted(Policy(), operator or {})
    except ConfigError as error:
        log.warning(
            "setting_unread: what was set of %s cannot be read and does not count; set it again: %s", task, error
        )
        return None
    return operator
