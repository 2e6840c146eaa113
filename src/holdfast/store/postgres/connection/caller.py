"""Calls: on a free connection, in the event loop in which the store was opened, again where that is safe."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec
import psycopg
from psycopg.rows import dict_row, tuple_row

from ....core.bound import MOST_MENDED
from ....errors import ConfigError, StoreClosed
from ...any_loop_lock import AnyLoopLock
from ...other_loop import done_in
from .. import migration, sql
from ..call.entry import entry
from ..url import PostgresAddress
from .connect import Connection, connect, connect_patiently, detect_pooler
from .errors import is_corrupt_row, is_lost, is_rolled_back, translate
from .pool import PostgresPool

T = TypeVar("T")
Rows = list[Any]
"""What a cursor gives: tuples or, where asked for, dicts. Which types are in them, the SQL says."""
Values = Sequence[object] | Mapping[str, object]
LOST_CALLS = 3
"""How often a call that may be repeated is tried when its connection is lost."""


class PostgresCaller:
    """The connections of one store, and every way to call its functions and statements."""

    def __init__(self, address: PostgresAddress, clock: Callable[[], int] | None) -> None:
        self.address = address
        """Once the store is open, with what was found out about a pooler."""
        self.epoch: str | None = None
        """What tells this store from others; known once it was opened."""
        self.pool: PostgresPool | None = None
        self.home: asyncio.AbstractEventLoop | None = None
        """The event loop in which the store was opened, and in which every call is made."""
        self._given = address
        self._clock = clock
        self._statements = sql.statements(address.schema)
        self._calls: dict[str, str] = {}
        self._opened = 0
        self._opening = AnyLoopLock()
        self._to_close: list[Callable[[], Awaitable[None]]] = []

    async def absent(self) -> str | None:
        """Return the place where `open` would make a new store, or `None`."""
        async with self._single_connection() as connection:
            found = await migration.inspect(connection, self._given)
        return None if found.tables else str(self._given)

    @asynccontextmanager
    async def _single_connection(self) -> AsyncIterator[Connection]:
        """Yield a connection besides the pool, which may not be there yet."""
        address = msgspec.structs.replace(self._given, prepare=False)
        connection = await connect_patiently(address.patience, lambda: connect(address))
        try:
            yield connection
        except psycopg.Error as error:
            raise translate(error, address) from error
        finally:
            await connection.close()

    async def open(self) -> None:
        """Make or update the schema and open the pool, unless that is done already."""
        async with self._opening:
            if self._opened == 0:
                await self._open()
            self._opened += 1

    async def _open(self) -> None:
        async with self._single_connection() as connection:
            await migration.migrate(connection, self._given)
            self.epoch = await migration.epoch(connection, self._given)
            self.address = await detect_pooler(connection, self._given)
        self.home = asyncio.get_running_loop()
        self.pool = PostgresPool(self.address)

    def close_first(self, close: Callable[[], Awaitable[None]]) -> None:
        """Register what has to be closed before the connections are."""
        self._to_close.append(close)

    async def close(self) -> None:
        """Close everything, unless others have opened the store and not closed it yet."""
        async with self._opening:
            self._opened = max(0, self._opened - 1)
            if self._opened == 0:
                await self._close()

    async def _close(self) -> None:
        pool, self.pool = self.pool, None
        for close in self._to_close:
            await close()
        if pool is not None:
            await pool.close()

    def open_pool(self) -> PostgresPool:
        """Return the pool; raise `StoreClosed` when the store is not open."""
        if self.pool is None:
            raise StoreClosed(f"{self.address} is not open, or is closed already")
        return self.pool

    def at_home(self) -> bool:
        """True in the event loop in which the store was opened."""
        return self.home is asyncio.get_running_loop()

    def now(self) -> str | None:
        """Return the time for the server, as text; `None`: the server's own."""
        return None if self._clock is None else str(self._clock())

    async def now_ms(self) -> int:
        """Return the store's own time."""
        return int(await self.value("clock", now=self.now()))

    def named(self, statement: str) -> str:
        """Return a statement with its names in the store's schema."""
        return sql.rename(statement, self.address.schema)

    def statement(self, function: str) -> str:
        """Return the statement that calls a function, with its arguments by name."""
        if function not in self._calls:
            self._calls[function] = self.named(entry(function).statement())
        return self._calls[function]

    async def run(
        self, work: Callable[[Connection, bool], Awaitable[T]], *, repeatable: bool, patient: bool = True
    ) -> T:
        """Return what the work returns, done in the loop in which the store was opened."""
        home, running = self.home, self._run_here(work, repeatable=repeatable, patient=patient)
        if home is None or self.at_home():
            return await running
        return await done_in(home, running)

    async def _run_here(
        self, work: Callable[[Connection, bool], Awaitable[T]], *, repeatable: bool, patient: bool
    ) -> T:
        """Return what the work returns; repeat it when nothing of it was done, within a bound.

        After a lost connection it is unknown what was done: then it is repeated only where that is safe. A caller that
        is not patient gets the error at once when the server is away: a worker's pump tries again, until it is stopped.
        """
        deadline = time.monotonic() + self.address.patience
        lost = tries = 0
        while True:
            pool = self.open_pool()
            try:
                async with pool.connection(patient=patient) as connection:
                    return await work(connection, tries > 0)
            except psycopg.Error as error:
                if is_lost(error):
                    lost += 1
                    if self.pool is not None:
                        await self.pool.forget_idle()
                    again = repeatable and lost < LOST_CALLS
                elif is_corrupt_row(error):
                    again = tries < MOST_MENDED and await self._set_corrupt_aside()
                else:
                    again = is_rolled_back(error)
                if not again or time.monotonic() > deadline:
                    raise translate(error, self.address) from error
            except UnicodeEncodeError as error:
                raise ConfigError(f"PostgreSQL keeps UTF-8 alone: {error}") from None
            tries += 1
            await asyncio.sleep(min(0.001 * 2**tries, 0.1) * random.uniform(0.5, 1.0))

    async def _set_corrupt_aside(self) -> bool:
        """Set aside the rows that hold what Holdfast never writes; return whether there was one."""
        async with self.open_pool().connection(patient=True) as connection:
            cursor = await connection.execute(self.statement("set_corrupt_aside"), {"clock": self.now(), "log": False})
            row = await cursor.fetchone()
        return bool(row and row[0])

    async def rows(
        self,
        statement: str,
        values: Values,
        *,
        repeatable: bool = True,
        named: bool = False,
        patient: bool = True,
        prepare: bool | None = None,
    ) -> Rows:
        """Return the rows of one statement; as dicts when `named`."""

        async def work(connection: Connection, again: bool) -> Rows:
            factory: Any = dict_row if named else tuple_row
            async with connection.cursor(binary=True, row_factory=factory) as cursor:
                await cursor.execute(statement, values, prepare=prepare)
                return await cursor.fetchall() if cursor.description else []

        return await self.run(work, repeatable=repeatable, patient=patient)

    async def call(
        self, function: str, *, repeatable: bool = True, patient: bool = True, **values: object
    ) -> list[dict[str, Any]]:
        """Return the reply of a function: rows whose columns have the names of its header. The time is added."""
        values["clock"] = self.now()
        rows = await self.rows(self.statement(function), values, repeatable=repeatable, patient=patient)
        names = entry(function).replies
        return [dict(zip(names, row, strict=True)) for row in rows]

    async def value(self, function: str, *, repeatable: bool = True, **values: object) -> Any:
        """Return the reply of a function that returns one value. The time is added to its arguments."""
        values["clock"] = self.now()
        rows = await self.rows(self.statement(function), values, repeatable=repeatable)
        return rows[0][0]

    async def query(self, name: str, **values: object) -> Rows:
        """Return what a statement of `sql/inspect` finds. Its plan is kept only where it is one call of a function.

        Any other is planned by the size that the tables have now: a plan that is kept may be from when they were small.
        """
        kept = None if name in sql.CALLS else False
        return await self.rows(self._statements[name], {"now": self.now(), **values}, named=True, prepare=kept)

    async def by_index(self, name: str, **values: object) -> Rows:
        """Do as `query`, with plans from indexes alone: what the planner knows of the tables may be outdated."""

        async def work(connection: Connection, again: bool) -> Rows:
            async with connection.transaction(), connection.cursor(binary=True, row_factory=dict_row) as cursor:
                await cursor.execute(sql.LOCALLY)
                await cursor.execute(self._statements[name], {"now": self.now(), **values}, prepare=False)
                return await cursor.fetchall()

        return await self.run(work, repeatable=True)

    async def read(self, name: str, convert: Callable[[Rows], T], **values: object) -> T:
        """Return what `convert` makes of the rows of a statement; set aside what cannot be read, and read again."""
        return await self.readable(lambda: self.query(name, **values), convert)

    async def readable(self, ask: Callable[[], Awaitable[Rows]], convert: Callable[[Rows], T]) -> T:
        """Do as `read`, for rows that are asked for in another way."""
        try:
            return convert(await ask())
        except (ValueError, TypeError, KeyError, msgspec.MsgspecError):
            await self.value("set_corrupt_aside", log=True)
        return convert(await ask())
