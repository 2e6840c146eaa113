"""Calls: on a connection that is free, in the loop in which the store was opened, again where that is safe."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec
import psycopg
from psycopg.rows import dict_row, tuple_row

from ...errors import ConfigError, StoreClosed
from . import migration, sql
from .array import texts
from .connection import (
    TRY_AGAIN,
    Connection,
    Pool,
    connect,
    found_out,
    is_garbage,
    is_lost,
    parse,
    patiently,
    translate,
)
from .existing import url_of
from .join import Identity
from .listen import Doubt, Switchboard

T = TypeVar("T")
Rows = list[Any]
MOST_MENDED = 5
"""How often a call is made again because rows that it stumbled on were set aside."""
LOST_CALLS = 3
"""How often a call that may be repeated is tried when its connection is lost."""


class Calling:
    """A store's connections, its statements, and its ear."""

    def __init__(self, url: Any, *, clock: Callable[[], int] | None = None) -> None:
        """`url` is a URL, a pool of psycopg_pool or an engine of SQLAlchemy, whose database is then used."""
        self.url = url if isinstance(url, str) else url_of(url)
        self.place = parse(self.url)
        self._clock = clock
        self._statements = sql.statements(self.place.schema)
        self._look_again = self._named("SELECT v_found, v_before FROM holdfast.claimable(%s, %s::text[], %s)")
        self._opened = 0
        self._opening = asyncio.Lock()
        self._pool: Pool | None = None
        self._home: asyncio.AbstractEventLoop | None = None
        self._identity = Identity(self.place)
        self._switchboard = Switchboard(self.place)
        self._doubt = Doubt(self._claimable)

    async def absent(self) -> str | None:
        async with self._alone() as connection:
            found = await migration.look(connection, self.place)
        return None if found.tables else str(self.place)

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[Connection]:
        """Yield a connection besides the pool, which may not be there yet."""
        place = msgspec.structs.replace(self.place, prepare=False)
        connection = await patiently(place.patience, lambda: connect(place))
        try:
            yield connection
        except psycopg.Error as error:
            raise translate(error, self.place) from error
        finally:
            await connection.close()

    async def open(self) -> None:
        async with self._opening:
            if self._opened == 0:
                await self._open()
            self._opened += 1

    async def _open(self) -> None:
        async with self._alone() as connection:
            await migration.migrate(connection, self.place)
            self._identity.learn(await migration.epoch(connection, self.place))
            found = await found_out(connection, self.place)
        self._home = asyncio.get_running_loop()
        self._pool = Pool(found)
        self._switchboard = Switchboard(found)

    async def close(self) -> None:
        async with self._opening:
            self._opened = max(0, self._opened - 1)
            if self._opened == 0:
                await self._close()

    async def _close(self) -> None:
        pool, self._pool = self._pool, None
        await self._doubt.close()
        await self._switchboard.close()
        if pool is not None:
            await pool.close()

    def _named(self, statement: str) -> str:
        return sql.rename(statement, self.place.schema)

    def _now(self) -> str | None:
        return None if self._clock is None else str(self._clock())

    async def _insist(
        self, work: Callable[[Connection, bool], Awaitable[T]], *, repeatable: bool, patient: bool = True
    ) -> T:
        """Return what the work returns, done in the loop in which the store was opened."""
        home, insisting = self._home, self._insist_here(work, repeatable=repeatable, patient=patient)
        if home is None or home is asyncio.get_running_loop():
            return await insisting
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(insisting, home))

    async def _insist_here(
        self, work: Callable[[Connection, bool], Awaitable[T]], *, repeatable: bool, patient: bool
    ) -> T:
        """Return what the work returns; it is done again when nothing of it was done, within a bound.

        After a lost connection nobody knows what was done: then it is done again only when it may be repeated.
        Whoever is not patient hears at once that the server is away: a worker's pump tries again, until it is stopped.
        """
        deadline = time.monotonic() + self.place.patience
        lost = tries = 0
        while True:
            if self._pool is None:
                raise StoreClosed(f"{self.place} is not open, or is closed already")
            try:
                async with self._pool.connection(patient=patient) as connection:
                    return await work(connection, tries > 0)
            except psycopg.Error as error:
                if is_lost(error):
                    lost += 1
                    if self._pool is not None:
                        await self._pool.forget_idle()
                    again = repeatable and lost < LOST_CALLS
                elif is_garbage(error):
                    again = tries < MOST_MENDED and await self._mend()
                else:
                    again = error.sqlstate in TRY_AGAIN
                if not again or time.monotonic() > deadline:
                    raise translate(error, self.place) from error
            except UnicodeEncodeError as error:
                raise ConfigError(f"PostgreSQL keeps UTF-8 alone: {error}") from None
            tries += 1
            await asyncio.sleep(min(0.001 * 2**tries, 0.1) * random.uniform(0.5, 1.0))

    async def _mend(self) -> bool:
        """True when some row held what we never write, and was set aside."""
        assert self._pool is not None
        statement = self._named("SELECT holdfast.set_aside(%s::bigint, %s)")
        async with self._pool.connection(patient=True) as connection:
            cursor = await connection.execute(statement, (self._now(), False))
            row = await cursor.fetchone()
        return bool(row and row[0])

    async def _shown(self, name: str, show: Callable[[Rows], T], **values: Any) -> T:
        """Return what `show` makes of rows; what cannot be read is set aside first, and hides nothing."""
        try:
            return show(await self._look(name, **values))
        except (ValueError, TypeError, KeyError, msgspec.MsgspecError):
            await self._rows(self._named("SELECT holdfast.set_aside(%s::bigint, %s)"), (self._now(), True))
        return show(await self._look(name, **values))

    async def _rows(
        self,
        statement: str,
        values: Any,
        *,
        repeatable: bool = True,
        named: bool = False,
        patient: bool = True,
        prepare: bool | None = None,
    ) -> Rows:
        async def work(connection: Connection, again: bool) -> Rows:
            factory: Any = dict_row if named else tuple_row
            async with connection.cursor(binary=True, row_factory=factory) as cursor:
                await cursor.execute(statement, values, prepare=prepare)
                return await cursor.fetchall() if cursor.description else []

        return await self._insist(work, repeatable=repeatable, patient=patient)

    async def _value(self, statement: str, *values: Any, repeatable: bool = True) -> Any:
        rows = await self._rows(self._named(statement), values, repeatable=repeatable)
        return rows[0][0]

    async def _look(self, name: str, **values: Any) -> Rows:
        """Return what a statement finds. Its plan is kept only where it is no more than one call of a function.

        Any other is planned by the size that the tables have now: a plan that is kept may be from when they were small.
        """
        kept = None if name in sql.CALLS else False
        return await self._rows(self._statements[name], {"now": self._now(), **values}, named=True, prepare=kept)

    async def now_ms(self) -> int:
        now: int = await self._value("SELECT holdfast.clock(%s::bigint)", self._now())
        return now

    async def _claimable(self, session: str, queues: Sequence[str], before: str) -> bool:
        ((found, _),) = await self._rows(self._look_again, (session, texts(queues), before))
        return bool(found)
