"""A pool or an engine that a program has already says where the store is."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import psycopg_pool
import pytest
import sqlalchemy
from servers import postgres
from sqlalchemy.ext.asyncio import create_async_engine

from holdfast import Holdfast
from holdfast.errors import ConfigError
from holdfast.store.postgres import PostgresStore
from holdfast.store.postgres.url import url_of

_numbers = itertools.count(1)


@pytest.fixture
def database() -> Iterator[str]:
    """A database of the test's own, so that nobody's schema `holdfast` is met."""
    name = f"existing_{os.getpid()}_{next(_numbers)}"
    plain = postgres().url().partition("?")[0]
    with psycopg.connect(plain, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield plain.removesuffix("postgres") + name
    with psycopg.connect(plain, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def pool(url: str) -> Any:
    return psycopg_pool.AsyncConnectionPool(url, open=False)


def pool_by_words(url: str) -> Any:
    words = psycopg.conninfo.conninfo_to_dict(url)
    return psycopg_pool.ConnectionPool("", kwargs={**words, "autocommit": True}, open=False)


def engine(url: str) -> Any:
    return sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))


def async_engine(url: str) -> Any:
    return create_async_engine(url.replace("postgresql:", "postgresql+asyncpg:"))


@pytest.mark.parametrize("make", [pool, pool_by_words, engine, async_engine], ids=lambda make: make.__name__)
async def test_the_store_is_where_the_pool_or_the_engine_is(make: Callable[[str], Any], database: str) -> None:
    async with Holdfast(make(database)) as app:
        handle = await app.queue("q").enqueue(None, job_id="j")
    assert handle.status == "queued"
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT id FROM holdfast.job").fetchall() == [("j",)]


def test_every_part_of_an_address_survives() -> None:
    made = psycopg_pool.ConnectionPool("postgresql://a%40b:p%3Aq@host:5433/d%2Fb?sslmode=require", open=False)
    assert url_of(made) == "postgresql://a%40b:p%3Aq@host:5433/d%2Fb?sslmode=require"
    socket = psycopg_pool.ConnectionPool("host=/run/postgres dbname=db", open=False)
    assert url_of(socket) == "postgresql://%2Frun%2Fpostgres/db"
    other = sqlalchemy.create_engine("postgresql+psycopg://me@host/db?application_name=shop")
    assert url_of(other) == "postgresql://me@host/db?application_name=shop"


def test_what_says_no_place_is_refused() -> None:
    with pytest.raises(ConfigError, match="no engine for PostgreSQL: give Holdfast the URL"):
        PostgresStore(sqlalchemy.create_engine("sqlite://"))
    with pytest.raises(ConfigError, match="several hosts: give Holdfast a URL"):
        PostgresStore(psycopg_pool.ConnectionPool("host=a,b dbname=db", open=False))
    with pytest.raises(ConfigError, match="by a function: give Holdfast a URL instead"):
        PostgresStore(psycopg_pool.ConnectionPool(lambda: "host=a", open=False))
    with pytest.raises(ConfigError, match="neither a URL nor a pool or an engine"):
        PostgresStore(object())
    with pytest.raises(ConfigError, match="psycopg_pool, sqlalchemy"):
        Holdfast(object())
