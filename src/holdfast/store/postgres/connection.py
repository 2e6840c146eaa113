"""Where a database is, connections to it, and its errors as ours."""

from __future__ import annotations

import asyncio
import random
import re
import select
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, TypeVar
from urllib.parse import quote, unquote, urlencode, urlsplit

import msgspec
import psycopg

from ...errors import (
    ConfigError,
    StoreBusy,
    StoreClosed,
    StoreError,
    StoreFull,
    StoreReadOnly,
)
from ..shown import ESCAPES, option, shown, written

T = TypeVar("T")
Connection = psycopg.AsyncConnection[tuple[Any, ...]]
TRY_AGAIN = frozenset({"40001", "40P01", "55P03"})
"""Serialization failure, deadlock, lock not available: rolled back for certain, so that nothing was done."""
FIRST_PAUSE, LONGEST_PAUSE = 0.01, 0.5
LEAST_LOCK = 1.0
"""For so many seconds a call waits for a lock even without patience: on a busy server others have it for a moment."""
SESSION = (
    "SELECT set_config('lock_timeout', %s, false), set_config('jit', 'off', false),"
    " set_config('default_transaction_isolation', 'read committed', false)"
)
"""Our functions look again at what changed while they waited: no stricter isolation of a role may keep them from it.
Compiling takes many times longer than whatever we ask."""
_LOST = re.compile(r"^(08...|57P0[1-5]|25P0[34])$")
_PASSING = re.compile("starting up|shutting down|recovery|not (yet )?accepting|too many|remaining connection slots")
_REFUSAL = re.compile("FATAL:|no password supplied")
_UNKNOWN_HOST = "|".join(str(getattr(socket, name)) for name in ("EAI_NONAME", "EAI_NODATA") if hasattr(socket, name))
_HOPELESS = re.compile(
    rf"failed to resolve host .*\[Errno ({_UNKNOWN_HOST})\]"
    r"|invalid \w+ value[: ]|invalid (port number|integer value)|weak sslmode|invalid when SSL support"
    r'|definition of service "'
    r"|SSL was required|(invalid response to|expected) (SSL negotiation|authentication request)"
    r'|certificate file "|certificate verify failed|server certificate for|private key'
)
"""What libpq says when it is asked for what cannot be: no such host, TLS that is not there, a file that is missing."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Which database, which schema in it, and how it is talked to, as the URL says."""

    conninfo: str
    """The URL for libpq, without our own options."""
    schema: str = "holdfast"
    history: int = 1_000_000
    """How many events the log keeps."""
    pool: int = 8
    """The most connections, besides the one that listens."""
    listen: bool | None = None
    """False behind a pooler in transaction mode: workers and waiters then poll. `None`: it is found out."""
    prepare: bool | None = None
    """False where a pooler cannot keep prepared statements. `None`: it is found out."""
    patience: float = 10.0
    """For how many seconds a call waits for a connection or a lock, or tries again."""
    direct: bool = False
    """It was found out that no pooler lies between: what is set in a session stays there."""

    def __repr__(self) -> str:
        return f"<Place {self}>"  # and no password

    def __str__(self) -> str:
        parts = urlsplit(self.conninfo)
        return f"postgresql://{parts.netloc.rpartition('@')[2]}{parts.path}?schema={self.schema}"


def parse(url: str) -> Place:
    """Return the place that a URL names, or say what is wrong with it."""
    if written(url) is None:
        raise ConfigError(f"{shown(url)!r}: host and port, then /database and ?options, were expected; {ESCAPES}")
    parts = urlsplit(url)
    given: dict[str, Any] = {}
    theirs = []
    for name, value in _pairs(parts.query):
        if name in _OPTIONS:
            given["schema" if name == "namespace" else name] = _option(url, name, value)
        elif name in libpq_options():
            theirs.append((name, value))
        else:
            raise ConfigError(f"{shown(url)!r}: {option(parts.query, name, value)} is not an option here; {_known()}")
    query = f"?{urlencode(theirs, quote_via=quote)}" if theirs else ""
    conninfo = f"postgresql://{parts.netloc}{parts.path}{query}"
    try:
        psycopg.conninfo.conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError:  # whose words may hold a part of it
        raise ConfigError(f"{shown(url)!r}: libpq cannot read it; {ESCAPES}; {_known()}") from None
    return Place(conninfo=conninfo, **given)


def _pairs(query: str) -> list[tuple[str, str]]:
    """Return the options of a URL as libpq reads them, to whom a plus is a plus."""
    parts = (pair.partition("=") for pair in query.split("&") if pair)
    return [(unquote(name), unquote(value)) for name, _, value in parts]


_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,62}"
_OPTIONS = {
    "schema": ("NAME", _NAME),
    "namespace": ("NAME", _NAME),
    "history": ("EVENTS", r"\d+"),
    "pool": ("CONNECTIONS", r"[1-9]\d*"),
    "listen": ("on|off", r"on|off"),
    "prepare": ("on|off", r"on|off"),
    "patience": ("SECONDS", r"\d+(\.\d+)?"),
}


def _known() -> str:
    return (
        f"besides libpq's own options, known are {', '.join(f'{name}={form}' for name, (form, _) in _OPTIONS.items())}"
    )


@cache
def libpq_options() -> frozenset[str]:
    """Return the names of the options that libpq has."""
    return frozenset(option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults())


def _option(url: str, name: str, value: str) -> Any:
    form, pattern = _OPTIONS[name]
    if not re.fullmatch(pattern, value):
        raise ConfigError(f"{shown(url)!r}: {option(f'{name}=', name, value)} is not {name}={form}")
    if form == "on|off":
        return value == "on"
    return value if form == "NAME" else float(value) if form == "SECONDS" else int(value)


class Unreachable(StoreError):
    """No connection could be made, so that nothing was done: later it may be."""


async def patiently(seconds: float, make: Callable[[], Awaitable[T]]) -> T:
    """Return what is made on a connection; while there is none to be had, it is tried again for so many seconds."""
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


async def connect(place: Place) -> Connection:
    """Return a connection in which every statement is its own transaction, unless it says otherwise."""
    try:
        connection = await psycopg.AsyncConnection.connect(
            place.conninfo,
            autocommit=True,
            prepare_threshold=1 if place.prepare is not False else None,
            fallback_application_name="holdfast",
            **_timeout(place),
        )
    except psycopg.Error as error:
        ours = translate(error, place)
        raise (Unreachable(str(ours)) if _may_pass(error) else ours) from error
    except UnicodeError as error:  # of whoever looks the host up
        raise ConfigError(f"{place}: this cannot be the name of a host ({error})") from None
    await connection.set_isolation_level(psycopg.IsolationLevel.READ_COMMITTED)  # for `transaction()`
    return connection


def _timeout(place: Place) -> dict[str, Any]:
    """Return for how long libpq tries to connect, unless the URL says that itself."""
    given = psycopg.conninfo.conninfo_to_dict(place.conninfo)
    return {} if "connect_timeout" in given else {"connect_timeout": max(1, round(place.patience))}


def _may_pass(error: psycopg.Error) -> bool:
    """True when a later try may do. Errors have no code yet in this phase; what the server itself says is `FATAL`.

    Of several hosts, or addresses of one, each has its own line: one that cannot be right is told at once.
    """
    text = str(error)
    refused = _REFUSAL.search(text) and not _PASSING.search(text)
    return is_lost(error) and not refused and not _HOPELESS.search(text)


async def found_out(connection: Connection, place: Place) -> Place:
    """Return the place with nothing left open: behind a pooler nothing may outlive a transaction."""
    cursor = await connection.execute("SELECT pg_backend_pid()", prepare=False)
    row = await cursor.fetchone()
    assert row is not None
    direct = row[0] == connection.info.backend_pid  # a pooler gives its clients numbers of its own
    listen = direct if place.listen is None else place.listen
    prepare = direct if place.prepare is None else place.prepare
    return msgspec.structs.replace(place, listen=listen, prepare=prepare, direct=direct)


class Pool:
    """Connections for one event loop: made when needed, up to a limit, and dropped when broken."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._idle: list[Connection] = []
        self._room = asyncio.Semaphore(place.pool)
        self.made = 0
        """How many connections there have been."""
        self._lock_timeout = str(round(max(LEAST_LOCK, place.patience) * 1000))
        self._closed = False

    @asynccontextmanager
    async def connection(self, *, patient: bool = True) -> AsyncIterator[Connection]:
        """Yield a connection that nobody else uses. An impatient caller tries again by itself."""
        connection = await patiently(self._place.patience if patient else 0, self._acquire)
        try:
            try:
                yield connection
            except BaseException as error:
                await _give_up(connection, error)
                raise
            finally:
                await self._put_back(connection)
        finally:
            self._room.release()

    async def _acquire(self) -> Connection:
        await self._enter()
        try:
            if self._closed:
                raise StoreClosed(f"{self._place} is closed")
            return await self._take() or await self._connect()
        except BaseException:
            self._room.release()
            raise

    async def _connect(self) -> Connection:
        """Return a new connection, whose statements wait for a lock no longer than the patience lasts."""
        connection = await connect(self._place)
        self.made += 1
        if self._place.direct:
            try:
                await connection.execute(SESSION, (self._lock_timeout,), prepare=False)
            except psycopg.Error as error:
                await connection.close()
                raise Unreachable(str(translate(error, self._place))) from error
            except BaseException:  # whoever wanted it does no longer
                await connection.close()
                raise
        return connection

    async def _enter(self) -> None:
        """There is room for one more."""
        if not self._room.locked():
            await self._room.acquire()
            return
        try:
            async with asyncio.timeout(self._place.patience):  # `wait_for` may lose a cancellation before Python 3.12
                await self._room.acquire()
        except TimeoutError:
            raise StoreBusy(
                f"{self._place}: all {self._place.pool} connections were in use for over "
                f"{self._place.patience:g} s; raise pool="
            ) from None

    async def _take(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.closed:
                continue
            if not _has_news(connection):
                return connection
            await connection.close()
        return None

    async def _put_back(self, connection: Connection) -> None:
        if connection.closed:
            return
        if self._closed:
            await connection.close()
        else:
            self._idle.append(connection)

    async def forget_idle(self) -> None:
        """The server was away: whatever connection was idle is gone too."""
        idle, self._idle = self._idle, []
        for connection in idle:
            await connection.close()

    async def close(self) -> None:
        """No connection is open."""
        self._closed = True
        await self.forget_idle()


def _has_news(connection: Connection) -> bool:
    """True when the server said something unasked, as it does when it ends: a call would find that out too late."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


async def _give_up(connection: Connection, error: BaseException) -> None:
    """A call that went wrong may keep its connection only when that is at rest, and can have had no part in it.

    A handler may have left something in the session that makes every call fail there.
    """
    suspect = isinstance(error, psycopg.Error) and error.sqlstate not in TRY_AGAIN
    at_rest = connection.closed or connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    if suspect or not at_rest:
        await connection.close()


def is_lost(error: psycopg.Error) -> bool:
    """True when the connection is gone, so that nobody knows whether the call was done."""
    if error.sqlstate is not None:
        return bool(_LOST.match(error.sqlstate))
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)


def is_trouble(error: psycopg.Error) -> bool:
    """True for what the server suffers, or others do to it, and not whoever asked: the same may go well later."""
    return is_lost(error) or (error.sqlstate or "")[:2] in ("40", "53", "57", "58") or error.sqlstate in TRY_AGAIN


def is_garbage(error: psycopg.Error) -> bool:
    """True for an error that a row can raise which holds what we never write; nothing of the call was done."""
    return bool(error.sqlstate) and str(error.sqlstate)[:2] in ("22", "23", "20") and "NUL" not in str(error)


def translate(error: psycopg.Error, place: Place) -> StoreError | ConfigError:
    """Return our error for one of PostgreSQL's, with what to do next."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    text = next((line for line in lines if _HOPELESS.search(line)), lines[0])
    state = error.sqlstate or ""
    if state in TRY_AGAIN:
        return StoreBusy(f"{place} was locked by others for over {place.patience:g} s; end their long transactions")
    if state == "53300":
        return StoreBusy(f"{place} takes no more connections ({text}); lower pool=, or raise max_connections")
    if state in ("53100", "53200", "53000"):
        return StoreFull(f"{place}: no room left in the server; nothing of this call was written ({text})")
    if state == "25006":
        return StoreReadOnly(f"{place} cannot be written: it is a replica or read-only ({text})")
    if state in ("42P01", "42883", "3F000"):
        return StoreError(f"{place}: its tables or functions are gone or another's ({text}); run holdfast migrate")
    if state == "42501":
        return StoreError(f"{place}: this user lacks a right ({text}); see docs/reference/postgres.md")
    if not state and _HOPELESS.search(text):
        return StoreError(f"{place}: no connection can be made ({text}); check host, port and TLS options of the URL")
    if not state and _REFUSAL.search(text) and not _PASSING.search(text):
        return StoreError(f"{place}: the server refuses ({text}); check user, password, database and its pg_hba.conf")
    if is_lost(error):
        return StoreError(f"{place}: the connection was lost or refused ({text}); is the server running?")
    if isinstance(error, psycopg.DataError) and "NUL" in text:
        return ConfigError(f"PostgreSQL cannot keep text with a NUL character ({text})")
    return StoreError(f"{place}: {text}")
