"""Connections to a server: how one is made, and what lies between it and us."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
import psycopg

from ....errors import ConfigError, StoreError
from ..url import PostgresAddress
from .errors import Unreachable, may_pass, translate

T = TypeVar("T")
Connection = psycopg.AsyncConnection[tuple[Any, ...]]
FIRST_PAUSE, LONGEST_PAUSE = 0.01, 0.5
SESSION = (
    "SELECT set_config('lock_timeout', %s, false), set_config('jit', 'off', false),"
    " set_config('default_transaction_isolation', 'read committed', false)"
)
"""Our functions look again at what changed while they waited: no stricter isolation of a role may keep them from it.
Compiling takes many times longer than our calls."""


async def connect_patiently(seconds: float, make: Callable[[], Awaitable[T]]) -> T:
    """Return what `make` returns; call it again for so many seconds while no connection can be made."""
    deadline, pause, before = time.monotonic() + seconds, FIRST_PAUSE, _cancellations()
    while True:
        try:
            return await make()
        except Unreachable as error:
            if _cancellations() > before:
                # The driver waits by `wait_for`, which may lose a cancellation before Python 3.12.
                raise asyncio.CancelledError from error
            left = deadline - time.monotonic()
            if left <= 0:
                raise StoreError(str(error)) from error.__cause__
        await asyncio.sleep(min(pause * random.uniform(0.5, 1.0), left))
        pause = min(pause * 2, LONGEST_PAUSE)


def _cancellations() -> int:
    """Return how often this task was told to end."""
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


async def connect(address: PostgresAddress) -> Connection:
    """Return a connection in which every statement is its own transaction, unless it says otherwise."""
    try:
        connection = await psycopg.AsyncConnection.connect(
            address.conninfo,
            autocommit=True,
            prepare_threshold=1 if address.prepare is not False else None,
            fallback_application_name="holdfast",
            **_timeout(address),
        )
    except psycopg.Error as error:
        ours = translate(error, address)
        raise (Unreachable(str(ours)) if may_pass(error) else ours) from error
    except UnicodeError as error:  # of the look-up of the host
        raise ConfigError(f"{address}: this cannot be the name of a host ({error})") from None
    try:
        await connection.set_isolation_level(psycopg.IsolationLevel.READ_COMMITTED)  # for `transaction()`
    except BaseException:  # the caller is gone
        await connection.close()
        raise
    return connection


def _timeout(address: PostgresAddress) -> dict[str, Any]:
    """Return for how long libpq tries to connect, unless the URL says that itself."""
    given = psycopg.conninfo.conninfo_to_dict(address.conninfo)
    return {} if "connect_timeout" in given else {"connect_timeout": max(1, round(address.patience))}


async def detect_pooler(connection: Connection, address: PostgresAddress) -> PostgresAddress:
    """Return the address with `listen`, `prepare` and `direct` set: behind a pooler nothing outlives a transaction."""
    cursor = await connection.execute("SELECT pg_backend_pid()", prepare=False)
    row = await cursor.fetchone()
    assert row is not None
    direct = row[0] == connection.info.backend_pid  # a pooler gives its clients numbers of its own
    listen = direct if address.listen is None else address.listen
    prepare = direct if address.prepare is None else address.prepare
    return msgspec.structs.replace(address, listen=listen, prepare=prepare, direct=direct)
