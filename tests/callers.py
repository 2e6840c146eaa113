"""Connections of every driver that can bring a transaction, each used as its own users would, behind one face."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sqlite3
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import aiosqlite
import asyncpg
import django
import django.conf
import django.db
import psycopg
import sqlalchemy
import sqlalchemy.ext.asyncio
import sqlalchemy.orm
from django.db import transaction
from django.db.utils import ConnectionHandler
from django.utils.connection import ConnectionProxy

from holdfast import Handle, Holdfast

_numbers = itertools.count(1)
if not django.conf.settings.configured:
    django.conf.settings.configure(LOGGING_CONFIG=None)
    django.setup()


class Caller:
    """A connection with a transaction open; `connection` is what its user gives to Holdfast."""

    connection: Any
    savepoints = ("SAVEPOINT mine", "ROLLBACK TO SAVEPOINT mine")

    def __init__(self, place: str) -> None:
        self.place = place

    async def open(self) -> None:
        raise NotImplementedError

    async def execute(self, statement: str) -> Any:
        raise NotImplementedError

    async def commit(self) -> None:
        await self.connection.commit()

    async def rollback(self) -> None:
        await self.connection.rollback()

    async def close(self) -> None:
        await self.connection.close()

    async def savepoint(self) -> None:
        await self.execute(self.savepoints[0])

    async def rollback_to(self) -> None:
        await self.execute(self.savepoints[1])

    async def enqueue(self, app: Holdfast, task: Any, *args: Any, **options: Any) -> Handle[Any]:
        handle: Handle[Any] = await task.options(connection=self.connection, **options).enqueue(*args)
        return handle

    async def enqueue_many(self, app: Holdfast, calls: Any, **options: Any) -> Any:
        return await app.enqueue_many(calls, connection=self.connection, **options)


class SyncCaller(Caller):
    """One of a synchronous driver, in a thread of its own, as in a web server."""

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self._thread = ThreadPoolExecutor(1)

    async def here(self, work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def connect(self) -> None:
        raise NotImplementedError

    def run(self, statement: str) -> Any:
        return self.connection.execute(statement)

    async def open(self) -> None:
        await self.here(self.connect)

    async def execute(self, statement: str) -> Any:
        return await self.here(lambda: self.run(statement))

    async def commit(self) -> None:
        await self.here(lambda: self.connection.commit())

    async def rollback(self) -> None:
        await self.here(lambda: self.connection.rollback())

    async def close(self) -> None:
        await self.here(lambda: self.connection.close())
        self._thread.shutdown()

    async def enqueue(self, app: Holdfast, task: Any, *args: Any, **options: Any) -> Handle[Any]:
        def work() -> Any:
            return app.sync(task.options(connection=self.connection, **options).enqueue(*args))

        handle: Handle[Any] = await self.here(work)
        return handle

    async def enqueue_many(self, app: Holdfast, calls: Any, **options: Any) -> Any:
        return await self.here(lambda: app.sync(app.enqueue_many(calls, connection=self.connection, **options)))


# --- SQLite: the place is a path


class Sqlite3(SyncCaller):
    def connect(self) -> None:
        self.connection = sqlite3.connect(self.place, timeout=20)


class Sqlite3Explicit(SyncCaller):
    """Begins and ends its transactions itself."""

    def connect(self) -> None:
        self.connection = sqlite3.connect(self.place, timeout=20, isolation_level=None)

    async def enqueue(self, app: Holdfast, task: Any, *args: Any, **options: Any) -> Handle[Any]:
        await self.begin()
        return await super().enqueue(app, task, *args, **options)

    async def enqueue_many(self, app: Holdfast, calls: Any, **options: Any) -> Any:
        await self.begin()
        return await super().enqueue_many(app, calls, **options)

    async def begin(self) -> None:
        if not self.connection.in_transaction:
            await self.execute("BEGIN IMMEDIATE")


class Aiosqlite(Caller):
    async def open(self) -> None:
        self.connection = await aiosqlite.connect(self.place, timeout=20)

    async def execute(self, statement: str) -> Any:
        return await self.connection.execute(statement)


class AlchemySession(SyncCaller):
    url = "sqlite:///{}"

    def connect(self) -> None:
        self.engine = sqlalchemy.create_engine(self.url.format(self.place))
        self.connection = sqlalchemy.orm.Session(self.engine)

    def run(self, statement: str) -> Any:
        return self.connection.execute(sqlalchemy.text(statement))

    async def close(self) -> None:
        await self.here(lambda: (self.connection.close(), self.engine.dispose()))
        self._thread.shutdown()


class AlchemyConnection(AlchemySession):
    def connect(self) -> None:
        self.engine = sqlalchemy.create_engine(self.url.format(self.place))
        self.connection = self.engine.connect()


class AlchemyAsyncSession(Caller):
    url = "sqlite+aiosqlite:///{}"

    async def open(self) -> None:
        self.engine = sqlalchemy.ext.asyncio.create_async_engine(self.url.format(self.place))
        self.connection = sqlalchemy.ext.asyncio.AsyncSession(self.engine)

    async def execute(self, statement: str) -> Any:
        return await self.connection.execute(sqlalchemy.text(statement))

    async def close(self) -> None:
        await self.connection.close()
        await self.engine.dispose()


class AlchemyAsyncConnection(AlchemyAsyncSession):
    async def open(self) -> None:
        self.engine = sqlalchemy.ext.asyncio.create_async_engine(self.url.format(self.place))
        self.connection = await self.engine.connect()


class Django(SyncCaller):
    """With `atomic` blocks; the connection is given as `django.db.connection` is."""

    engine = "django.db.backends.sqlite3"

    def options(self) -> dict[str, Any]:
        return {"NAME": self.place, "OPTIONS": {"timeout": 20}}

    def connect(self) -> None:
        self.alias = f"place{next(_numbers)}"
        known = ConnectionHandler({"default": {}, self.alias: {"ENGINE": self.engine, **self.options()}})
        django.db.connections.settings[self.alias] = known.settings[self.alias]
        self.connection = ConnectionProxy(django.db.connections, self.alias)
        self.begin()

    def begin(self) -> None:
        self.block = transaction.atomic(using=self.alias)
        self.block.__enter__()

    def run(self, statement: str) -> Any:
        with self.connection.cursor() as cursor:
            cursor.execute(statement)

    def end(self, error: Exception | None) -> None:
        self.block.__exit__(type(error) if error else None, error, None)
        self.begin()

    async def commit(self) -> None:
        await self.here(lambda: self.end(None))

    async def rollback(self) -> None:
        await self.here(lambda: self.end(ValueError()))

    async def savepoint(self) -> None:
        self.inner = transaction.atomic(using=self.alias)
        await self.here(self.inner.__enter__)

    async def rollback_to(self) -> None:
        error = ValueError()
        await self.here(lambda: self.inner.__exit__(ValueError, error, None))

    async def close(self) -> None:
        await self.here(lambda: self.block.__exit__(ValueError, ValueError(), None))
        await super().close()


SQLITE = (
    Sqlite3, Sqlite3Explicit, Aiosqlite, AlchemySession, AlchemyConnection, AlchemyAsyncSession,
    AlchemyAsyncConnection, Django,
)  # fmt: skip


# --- PostgreSQL: the place is a URL of libpq


class Psycopg(SyncCaller):
    def connect(self) -> None:
        self.connection = psycopg.connect(self.place, row_factory=psycopg.rows.dict_row)


class PsycopgAsync(Caller):
    async def open(self) -> None:
        self.connection = await psycopg.AsyncConnection.connect(self.place, row_factory=psycopg.rows.dict_row)

    async def execute(self, statement: str) -> Any:
        return await self.connection.execute(statement)


class Asyncpg(Caller):
    async def open(self) -> None:
        self.connection = await asyncpg.connect(self.place)
        await self.begin()

    async def begin(self) -> None:
        self.transaction = self.connection.transaction()
        await self.transaction.start()

    async def execute(self, statement: str) -> Any:
        return await self.connection.execute(statement)

    async def commit(self) -> None:
        await self.transaction.commit()
        await self.begin()

    async def rollback(self) -> None:
        await self.transaction.rollback()
        await self.begin()


class AsyncpgPool(Asyncpg):
    async def open(self) -> None:
        self.pool = await asyncpg.create_pool(self.place, min_size=1, max_size=1)
        self.connection = await self.pool.acquire()
        await self.begin()

    async def close(self) -> None:
        await self.transaction.rollback()
        await self.pool.release(self.connection)
        await self.pool.close()


class Postgres:
    """The same engines, on the other server."""

    place: str
    dialect = "postgresql+psycopg"

    @property
    def url(self) -> str:
        return self.place.replace("postgresql", self.dialect, 1)


class PostgresAlchemySession(Postgres, AlchemySession):
    pass


class PostgresAlchemyConnection(Postgres, AlchemyConnection):
    pass


class PostgresAlchemyAsyncSession(Postgres, AlchemyAsyncSession):
    pass


class AsyncpgAlchemySession(Postgres, AlchemyAsyncSession):
    dialect = "postgresql+asyncpg"


class AsyncpgAlchemyConnection(Postgres, AlchemyAsyncConnection):
    dialect = "postgresql+asyncpg"


class PostgresDjango(Django):
    engine = "django.db.backends.postgresql"

    def options(self) -> dict[str, Any]:
        parts = urlsplit(self.place)
        return {"NAME": parts.path[1:], "USER": parts.username, "HOST": parts.hostname, "PORT": parts.port}


POSTGRES = (
    Psycopg, PsycopgAsync, Asyncpg, AsyncpgPool, PostgresAlchemySession, PostgresAlchemyConnection,
    PostgresAlchemyAsyncSession, AsyncpgAlchemySession, AsyncpgAlchemyConnection, PostgresDjango,
)  # fmt: skip


@contextlib.asynccontextmanager
async def connected(kind: type[Caller], place: str) -> AsyncIterator[Caller]:
    """A connection of this kind is open; what it has not committed is rolled back at the end."""
    caller = kind(place)
    await caller.open()
    try:
        yield caller
    finally:
        with contextlib.suppress(Exception):
            await caller.rollback()
        await caller.close()
