"""The settings that people and workers give: read, judged here, and written, under the queue's lock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ...core.declaration import declared_settings, wins
from ...core.limit import QueueSettings
from ...core.policy import ADJUSTABLE, Policy, adjusted
from ...errors import ConfigError
from ..contract import Declaration
from .connection import Connection
from .look import policy
from .sql import rename

MANY = 1_000_000
"""More jobs than parked workers have room for: all of them are woken."""
_encode = msgspec.json.Encoder(order="sorted").encode

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
INSERT INTO holdfast.policy (queue, task, version, declared, operator, failures, stalls, timeouts, releases, initial,
    multiplier, maximum, jitter, timeout_ms, on_failure_queue, on_failure_task)
VALUES (%(queue)s, %(task)s, %(version)s, %(declared)s::jsonb, %(operator)s::jsonb, %(failures)s, %(stalls)s,
    %(timeouts)s, %(releases)s, %(initial)s, %(multiplier)s, %(maximum)s, %(jitter)s, %(timeout_ms)s, %(on_queue)s,
    %(on_task)s)
ON CONFLICT (queue, task) DO UPDATE SET version = excluded.version, declared = excluded.declared,
    operator = excluded.operator, failures = excluded.failures, stalls = excluded.stalls,
    timeouts = excluded.timeouts, releases = excluded.releases, initial = excluded.initial,
    multiplier = excluded.multiplier, maximum = excluded.maximum, jitter = excluded.jitter,
    timeout_ms = excluded.timeout_ms, on_failure_queue = excluded.on_failure_queue,
    on_failure_task = excluded.on_failure_task
"""


class Steering:
    """One transaction of somebody who steers."""

    def __init__(self, connection: Connection, schema: str, now: str | None) -> None:
        self._connection = connection
        self._schema = schema
        self._now = now

    async def _run(self, statement: str, values: Any) -> list[tuple[Any, ...]]:
        cursor = await self._connection.execute(rename(statement, self._schema), values)
        return await cursor.fetchall() if cursor.description else []

    async def _hold(self, *queues: str) -> None:
        await self._run("SELECT holdfast.hold(%s::text[])", (list(queues),))

    async def _queue(self, name: str) -> tuple[int, dict[str, Any], dict[str, Any]]:
        ((version, declared, operator),) = await self._run(
            "SELECT version, declared::text, operator::text FROM holdfast.queue WHERE name = %s", (name,)
        )
        return version, msgspec.json.decode(declared), msgspec.json.decode(operator)

    async def _put_queue(
        self, name: str, version: int, declared: Mapping[str, Any], operator: Mapping[str, Any]
    ) -> QueueSettings:
        settings = msgspec.convert({**declared, **operator}, QueueSettings)
        rate, key_rate, kept = settings.rate, settings.key_rate, settings.retention
        await self._run(
            _QUEUE,
            {
                "name": name,
                "version": version,
                "declared": _encode(declared).decode(),
                "operator": _encode(operator).decode(),
                "rate_count": rate and rate.count,
                "rate_per": rate and rate.per,
                "rate_burst": rate and rate.burst,
                "key_rate_count": key_rate and key_rate.count,
                "key_rate_per": key_rate and key_rate.per,
                "key_rate_burst": key_rate and key_rate.burst,
                "completed_ms": kept.completed_ms,
                "failed_ms": kept.failed_ms,
                "failed_count": kept.failed_count,
                "payloads": settings.history == "payloads",
                **{
                    name: getattr(settings, name)
                    for name in ("paused", "concurrency", "key_concurrency", "result_ttl_ms")
                },
            },
        )
        return settings

    async def _changed(self, queue: str, settings: QueueSettings) -> None:
        await self._run("SELECT holdfast.recheck_queue(holdfast.clock(%s::bigint), %s)", (self._now, queue))
        await self._wake(queue, settings.concurrency or MANY)

    async def _wake(self, queue: str, jobs: int) -> None:
        await self._run("SELECT holdfast.wake(%s, %s::bigint)", (queue, jobs))

    async def declare(self, declarations: Sequence[Declaration]) -> None:
        """What workers say of queues and tasks holds, unless a higher version is there already.

        Where it holds already, no queue is locked: a worker that starts must not wait for a caller's open transaction.
        """
        if all([await self._is_declared(declaration) for declaration in declarations]):
            return
        await self._hold(*(declaration.queue for declaration in declarations))
        for declaration in declarations:
            changed = await self._declare_queue(declaration)
            for task, wanted in declaration.tasks.items():
                changed = await self._declare_task(declaration, task, wanted) or changed
            if changed:
                _, declared, operator = await self._queue(declaration.queue)
                await self._changed(declaration.queue, msgspec.convert({**declared, **operator}, QueueSettings))

    async def _is_declared(self, declaration: Declaration) -> bool:
        queue = await self._run(
            "SELECT version, declared::text FROM holdfast.queue WHERE name = %s", (declaration.queue,)
        )
        if not queue or _settings(declaration, queue[0][0], msgspec.json.decode(queue[0][1])) is not None:
            return False
        tasks = await self._run(
            "SELECT task, version, declared::text FROM holdfast.policy WHERE queue = %s", (declaration.queue,)
        )
        known = {
            task: (version, policy(declaration.queue, task, declared, None))
            for task, version, declared in tasks
            if declared is not None
        }
        return all(
            task in known and known[task][0] >= declaration.version and known[task][1] == wanted
            for task, wanted in declaration.tasks.items()
        )

    async def _declare_queue(self, declaration: Declaration) -> bool:
        msgspec.convert(declaration.settings, QueueSettings)
        version, declared, operator = await self._queue(declaration.queue)
        new = _settings(declaration, version, declared)
        if new is None:
            return False
        await self._put_queue(declaration.queue, declaration.version, new, operator)
        return new != declared

    async def _declare_task(self, declaration: Declaration, task: str, wanted: Policy) -> bool:
        queue = declaration.queue
        version, declared, operator = await self._task(queue, task)
        if declared is not None:
            stored, what = msgspec.json.decode(declared, type=Policy), f"task {task!r} of queue {queue!r}"
            if stored == wanted and declaration.version <= version:
                return False
            if stored != wanted and not wins(what, stored, version, wanted, declaration.version):
                return False
        await self._put_task(queue, task, declaration.version, _encode(wanted).decode(), operator)
        return True

    async def _task(self, queue: str, task: str) -> tuple[int, str | None, str | None]:
        found = await self._run(
            "SELECT version, declared::text, operator::text FROM holdfast.policy WHERE queue = %s AND task = %s",
            (queue, task),
        )
        version, declared, operator = found[0] if found else (None, None, None)
        return version or 0, declared, operator

    async def _put_task(
        self, queue: str, task: str, version: int, declared: str | None, operator: str | None
    ) -> Policy:
        wanted = policy(queue, task, declared, operator)
        on_queue, on_task = wanted.on_failure or (None, None)
        await self._run(
            _POLICY,
            {
                "queue": queue, "task": task, "version": version, "declared": declared, "operator": operator,
                "timeout_ms": wanted.timeout_ms, "on_queue": on_queue, "on_task": on_task,
                **msgspec.structs.asdict(wanted.retry),
            },
        )  # fmt: skip
        return wanted

    async def configure(self, queue: str, set: Mapping[str, Any], clear: Sequence[str]) -> QueueSettings:
        """An operator's settings hold above what workers declare, until they are cleared."""
        unknown = [name for name in (*set, *clear) if name not in QueueSettings.__struct_fields__]
        if unknown:
            known = ", ".join(QueueSettings.__struct_fields__)
            raise ConfigError(f"{unknown[0]!r} is not a setting of a queue; known are {known}")
        await self._hold(queue)
        version, declared, operator = await self._queue(queue)
        new = msgspec.to_builtins({name: value for name, value in {**operator, **set}.items() if name not in clear})
        try:
            settings = await self._put_queue(queue, version, declared, new)
        except msgspec.ValidationError as error:
            raise ConfigError(f"queue {queue!r}: {error}") from None
        await self._changed(queue, settings)
        return settings

    async def adjust(self, queue: str, task: str, set: Mapping[str, Any], clear: Sequence[str]) -> Policy:
        """An operator's settings of a task hold above what workers declare, until they are cleared."""
        if unknown := [name for name in clear if name not in ADJUSTABLE]:
            raise ConfigError(f"{unknown[0]!r} is not a setting of a task; known are {', '.join(ADJUSTABLE)}")
        await self._hold(queue)
        version, declared, stored = await self._task(queue, task)
        operator = {**(msgspec.json.decode(stored) if stored else {}), **set}
        operator = {name: value for name, value in operator.items() if name not in clear}
        adjusted(Policy(), operator)
        if operator or declared is not None:
            encoded = _encode(operator).decode() if operator else None
            return await self._put_task(queue, task, version, declared, encoded)
        await self._run("DELETE FROM holdfast.policy WHERE queue = %s AND task = %s", (queue, task))
        return Policy()

    async def limit_key(self, queue: str, key: str, concurrency: int | None) -> None:
        """One key has a concurrency of its own, or no longer."""
        if concurrency is not None and (type(concurrency) is not int or concurrency < 1):
            raise ConfigError(
                f"key {key!r}: concurrency={concurrency!r}: a whole number from 1, or None for the queue's own"
            )
        await self._hold(queue)
        if concurrency is None:
            await self._run("DELETE FROM holdfast.key_limit WHERE queue = %s AND key = %s", (queue, key))
        else:
            await self._run(
                "INSERT INTO holdfast.key_limit (queue, key, concurrency) VALUES (%s, %s, %s)"
                " ON CONFLICT (queue, key) DO UPDATE SET concurrency = excluded.concurrency",
                (queue, key, concurrency),
            )
        await self._run("SELECT holdfast.recheck(holdfast.clock(%s::bigint), %s, %s)", (self._now, queue, key))
        await self._wake(queue, concurrency or MANY)


def _settings(declaration: Declaration, version: int, stored: dict[str, Any]) -> dict[str, Any] | None:
    """Return what the declaration makes of a queue's settings, or `None` where it changes nothing."""
    return declared_settings(
        f"queue {declaration.queue!r}", stored, version, declaration.settings, declaration.version,
        partial=declaration.partial,
    )  # fmt: skip
