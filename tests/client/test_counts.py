"""EnqueueCounts that are off, because somebody else wrote to the store: found, said and made right by the doctor."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner
from servers import postgres

from holdfast import Holdfast
from holdfast.cli.root import cli
from holdfast.core.state import State
from holdfast.testing import drain

Meddle = Callable[[str], None]


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Meddle]]:
    """Yield a URL, and a way to run SQL there behind Holdfast's back."""
    if request.param == "sqlite":
        path = tmp_path / "jobs.db"

        def in_file(statement: str) -> None:
            with closing(sqlite3.connect(path, isolation_level=None)) as connection:
                connection.execute(statement.replace("holdfast.", "holdfast_"))

        yield f"sqlite:///{path}", in_file
        return
    schema = f"counts_{os.getpid()}"
    with psycopg.connect(postgres().url().partition("?")[0], autocommit=True) as connection:
        yield (
            postgres().url(schema),
            lambda statement: connection.execute(statement.replace("holdfast.", f"{schema}.")) and None,  # type: ignore[arg-type]
        )
        connection.execute(f"DROP SCHEMA {schema} CASCADE")


async def counted(app: Holdfast) -> dict[str, int]:
    (info,) = await app.queues()
    return {state: count for state, count in info.counts.items() if count}


async def test_a_count_that_is_off_is_named_by_doctor_and_right_afterwards(place: tuple[str, Meddle]) -> None:
    url, meddle = place
    app = Holdfast(url)
    async with app:
        for number in range(5):
            await app.queue("q").enqueue(number, job_id=f"j{number}")
        meddle("DELETE FROM holdfast.job WHERE id IN ('j1', 'j3')")
        found = {each.name: each for each in await app.store.doctor()}
        assert found["counts"].verdict == "warning"
        assert "1 were wrong, and are right now: q: 5 waiting counted, 3 there" in found["counts"].detail
        assert found["counts"].advice.startswith("find out who else wrote to the store")
        assert await counted(app) == {State.WAITING: 3}
        assert {each.name: each.verdict for each in await app.store.doctor()}["counts"] == "ok"


async def test_no_count_is_negative_though_a_row_of_the_tally_was_lost(place: tuple[str, Meddle]) -> None:
    url, meddle = place
    app = Holdfast(url)

    @app.task(queue="q")
    async def work() -> None: ...

    async with app:
        await work.enqueue()
        await work.enqueue()
        await app.store.expire("q")  # what was counted so far is in the tally
        meddle("DELETE FROM holdfast.tally")
        assert len(await drain(app)) == 2
        (info,) = await app.queues()
        assert min(info.counts.values()) == 0
        await app.store.doctor()
        assert await counted(app) == {State.COMPLETED: 2}


def test_the_command_shows_it_as_a_warning(place: tuple[str, Meddle]) -> None:
    url, meddle = place
    app = Holdfast(url)
    with app.sync:
        app.sync(app.queue("q").enqueue(1, delay=3600))
        meddle("DELETE FROM holdfast.job")
        result = CliRunner().invoke(cli, ["doctor", "--url", url, "--json"])
        check = {each["name"]: each for each in json.loads(result.stdout)}["store: counts"]
        assert (check["ok"], check["warning"]) == (True, True)
        assert "q: 1 scheduled counted, 0 there" in check["detail"]
