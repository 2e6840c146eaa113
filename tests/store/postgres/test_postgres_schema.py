"""The schema's versions: functions are renewed by a newer Holdfast, and an older one leaves them alone."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner
from schemas import drop
from servers import postgres
from support import PATIENCE, working

from holdfast import Holdfast, StoreError
from holdfast.cli.root import cli
from holdfast.errors import StoreTooNew
from holdfast.store.contract import NewJob
from holdfast.store.postgres import PostgresStore, sql

OTHER = "CREATE OR REPLACE FUNCTION \"{}\".clock(p_now bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 7::bigint'"
_numbers = itertools.count(1)


@pytest.fixture
def schema() -> Iterator[str]:
    name = f"versions_{os.getpid()}_{next(_numbers)}"
    yield name
    drop(name)


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


async def test_newer_functions_come_in_while_a_caller_keeps_a_transaction_open(schema: str) -> None:
    """A rolling deploy must not stand still, with everybody behind it, until somebody ends a transaction."""
    app = Holdfast(postgres().url(schema))
    async with app, await psycopg.AsyncConnection.connect(postgres().url().partition("?")[0]) as caller:
        first = await app.queue("q").enqueue(1, delay=60)
        await app.queue("q").enqueue(2, connection=caller, blockers=[first])
        record(schema, f"{sql.MINOR - 1} of-an-older-release")
        await asyncio.wait_for(opened(schema), PATIENCE)
        await caller.commit()
    assert recorded(schema) == f"{sql.MINOR} {sql.digest()}"


# --- tables of an older Holdfast

NEXT = "ALTER TABLE holdfast.job ADD COLUMN colour text;\n"


@pytest.fixture
def next_release(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """What makes this Holdfast one that has a migration more, and returns its number."""

    def release() -> int:
        known = sql.migrations()
        number = known[-1][0] + 1
        monkeypatch.setattr(sql, "migrations", lambda: [*known, (number, NEXT)])
        return number

    return release


def colours(schema: str) -> list[Any]:
    return run(f'SELECT id, colour FROM "{schema}".job')


async def test_a_store_of_an_older_version_is_brought_up_with_its_jobs(
    schema: str, next_release: Callable[[], int]
) -> None:
    async with Holdfast(postgres().url(schema)) as app:
        await app.queue("q").enqueue(1, job_id="j")
    number = next_release()
    async with Holdfast(postgres().url(schema)) as app:
        assert (await app.status("q", "j")).state == "waiting"
        await app.queue("q").enqueue(2, job_id="k")
    assert sorted(colours(schema)) == [("j", None), ("k", None)]
    assert run(f"SELECT value FROM \"{schema}\".meta WHERE name = 'schema'") == [(str(number),)]


async def test_a_store_of_a_newer_version_is_refused_by_an_older_holdfast(
    schema: str, next_release: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = sql.migrations()
    number = next_release()
    await opened(schema)
    monkeypatch.setattr(sql, "migrations", lambda: known)
    with pytest.raises(StoreTooNew, match=f"has schema {number}, and this Holdfast knows {known[-1][0]}: upgrade"):
        await opened(schema)


async def test_the_sql_since_a_number_brings_an_older_schema_up(schema: str, next_release: Callable[[], int]) -> None:
    await opened(schema)
    number = next_release()
    command = ["migrate", "--url", postgres().url(schema), "--sql"]
    result = CliRunner().invoke(cli, [*command, "--since", str(number - 1)])
    assert result.exit_code == 0, result.output
    assert "ADD COLUMN colour" in result.output
    assert "CREATE TABLE" not in result.output
    run(result.output)
    by_hand = functions(schema), recorded(schema), columns(schema)
    run(f'DROP SCHEMA "{schema}" CASCADE')
    await opened(schema)
    assert (functions(schema), recorded(schema), columns(schema)) == by_hand


def columns(schema: str) -> list[Any]:
    return run(
        "SELECT table_name, column_name, data_type, column_default FROM information_schema.columns"
        f" WHERE table_schema = '{schema}' ORDER BY 1, 2"
    )


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--sql", "--since", "99"], "--since=99: this Holdfast knows schemas up to"),
        (["--since", "1"], "--since is for --sql"),
    ],
)
def test_a_number_that_cannot_be_is_refused(schema: str, more: list[str], told: str) -> None:
    result = CliRunner().invoke(cli, ["migrate", "--url", postgres().url(schema), *more])
    assert result.exit_code == 2
    assert told in result.output


async def test_a_user_who_may_not_renew_the_functions_is_told_who_can(schema: str) -> None:
    await opened(schema)
    record(schema, f"{sql.MINOR - 1} of-an-older-release")
    role = f"role_{schema}"
    run(f"CREATE ROLE {role} LOGIN")
    run(f"GRANT USAGE ON SCHEMA {schema} TO {role}")
    run(f"GRANT SELECT ON {schema}.meta TO {role}")
    store = PostgresStore(postgres().url(schema).replace("holdfast@", f"{role}@"))
    with pytest.raises(StoreError, match=r"is older than this Holdfast, and this user may not change it.*its owner"):
        await store.open()
    run(f"DROP OWNED BY {role}")
    run(f"DROP ROLE {role}")


async def test_a_user_with_the_rights_that_the_docs_name_can_do_everything(schema: str) -> None:
    await opened(schema)
    role = f"role_{schema}"
    for statement in (
        f"CREATE ROLE {role} LOGIN",
        f"GRANT USAGE ON SCHEMA {schema} TO {role}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}",
        f"GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA {schema} TO {role}",
    ):
        run(statement)
    app = Holdfast(postgres().url(schema).replace("holdfast@", f"{role}@"))

    @app.task()
    async def echo(n: int) -> int:
        return n

    async with working(app):
        first = await echo.options(key="k").enqueue(1)
        assert await echo.options(blockers=[first]).call(2) == 2
        await app.queue("default").pause()
        assert [event.transition async for event in app.events(queue="default")].count("complete") == 2
        await app.store.hold("mine", (await app.store.events()).position)
    run(f"DROP OWNED BY {role}")
    run(f"DROP ROLE {role}")


# --- a backup in another server


async def test_a_log_that_was_restored_in_another_server_begins_anew(schema: str) -> None:
    """There, transactions have lower numbers again: what comes in would be in front of all that readers have read."""
    app = Holdfast(postgres().url(schema))
    async with app:
        for n in range(3):
            await app.queue("q").enqueue(n, job_id=f"old-{n}")
        position = (await app.store.events()).position
        await app.store.hold("lake", position)
    run(f'UPDATE "{schema}".event SET xid = (xid::text::bigint + 1000000000)::text::xid8')
    moved = position.replace(position.split(":")[1], str(int(position.split(":")[1]) + 1000000000), 1)
    async with app:
        await app.queue("q").enqueue(3, job_id="new")
        page = await app.store.events(moved)
        assert page.reset, "the reader is told"
        assert [event.id for event in page.events] == ["old-0", "old-1", "old-2", "new"]
        assert (await app.store.events(page.position)).events == []
        await app.queue("q").enqueue(4, job_id="newer")
        assert [event.id for event in (await app.store.events(page.position)).events] == ["newer"]
    assert run(f"SELECT name FROM \"{schema}\".meta WHERE name LIKE 'reader:%'") == []
