"""The schema's versions: functions are renewed by a newer Holdfast, and an older one leaves them alone."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from servers import postgres

from holdfast.store.contract import NewJob
from holdfast.store.postgres import PostgresStore, sql

OTHER = "CREATE OR REPLACE FUNCTION \"{}\".clock(p_now bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 7::bigint'"
_numbers = itertools.count(1)


@pytest.fixture
def schema() -> Iterator[str]:
    name = f"versions_{os.getpid()}_{next(_numbers)}"
    yield name
    run(f'DROP SCHEMA IF EXISTS "{name}" CASCADE')


def run(statement: str) -> list[Any]:
    with psycopg.connect(postgres().url().partition("?")[0], autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


async def opened(schema: str) -> None:
    store = PostgresStore(postgres().url(schema))
    await store.open()
    await store.close()


def functions(schema: str) -> list[Any]:
    return run(
        "SELECT proname, pg_get_function_arguments(oid), pg_get_function_result(oid), prosrc, proconfig FROM pg_proc"
        f" WHERE pronamespace = '{schema}'::regnamespace ORDER BY 1, 2"
    )


def recorded(schema: str) -> str:
    ((value,),) = run(f"SELECT value FROM \"{schema}\".meta WHERE name = 'functions'")
    return str(value)


def record(schema: str, value: str) -> None:
    run(f"UPDATE \"{schema}\".meta SET value = '{value}' WHERE name = 'functions'")


async def test_older_functions_are_made_anew_and_are_what_a_new_schema_has(schema: str) -> None:
    await opened(schema)
    ours, value = functions(schema), recorded(schema)
    assert value == f"{sql.MINOR} {sql.digest()}"
    run(OTHER.format(schema))
    record(schema, f"{sql.MINOR - 1} of-an-older-release")
    await opened(schema)
    assert (functions(schema), recorded(schema)) == (ours, value)


async def test_a_schema_from_before_functions_had_a_number_gets_them_anew(schema: str) -> None:
    await opened(schema)
    ours = functions(schema)
    run(OTHER.format(schema))
    run(f"DELETE FROM \"{schema}\".meta WHERE name = 'functions'")
    await opened(schema)
    assert functions(schema) == ours


async def test_functions_of_the_same_number_and_another_digest_are_made_anew(schema: str) -> None:
    await opened(schema)
    run(OTHER.format(schema))
    record(schema, f"{sql.MINOR} of-a-branch")
    await opened(schema)
    assert recorded(schema) == f"{sql.MINOR} {sql.digest()}"
    assert ("SELECT 7::bigint",) not in [(source,) for _, _, _, source, _ in functions(schema)]


async def test_an_older_holdfast_leaves_newer_functions_alone_and_works_with_them(schema: str) -> None:
    await opened(schema)
    run(OTHER.format(schema))
    newer = functions(schema)
    record(schema, f"{sql.MINOR + 1} of-a-newer-release")
    store = PostgresStore(postgres().url(schema))
    await store.open()
    (answer,) = await store.enqueue("q", [NewJob(id="j", task="t", payload=b"")])
    assert answer.status == "queued"
    assert await store.now_ms() == 7, "the newer function answered"
    await store.close()
    assert functions(schema) == newer


async def test_a_function_that_gave_something_else_is_replaced_too(schema: str) -> None:
    await opened(schema)
    ours = functions(schema)
    run(f'DROP FUNCTION "{schema}".clock(bigint)')
    run(f"CREATE FUNCTION \"{schema}\".clock(p_now bigint) RETURNS text LANGUAGE sql AS 'SELECT ''seven'''")
    record(schema, "0 of-an-older-release")
    await opened(schema)
    assert functions(schema) == ours
