"""Jobs in a caller's own transaction, on SQLite, by every driver."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from callers import SQLITE, Caller, connected
from support import PATIENCE, burst, eventually, run, transitions
from transaction_case import READY, TransactionCase, declare, parked

from holdfast import ConfigError, Holdfast
from holdfast.store.sqlite.notify import After
from holdfast.store.sqlite.transaction import commit
from holdfast.store.sqlite.transaction.commit import watched


@pytest.fixture
def place(app: Holdfast, path: Path) -> str:
    """The file of the store, with its tables."""

    async def made() -> None:
        async with app:
            pass

    run(made())
    return str(path)


@pytest.fixture
def table(place: str) -> str:
    with sqlite3.connect(place) as connection:
        connection.execute(READY.format("mine"))
    connection.close()
    return "mine"


@pytest.mark.parametrize("kind", SQLITE)
class TestSqlite(TransactionCase):
    async def test_another_file_is_refused(self, app: Holdfast, kind: type[Caller], place: str, tmp_path: Path) -> None:
        double = declare(app)
        async with app, connected(kind, str(tmp_path / "other.db")) as caller:
            with pytest.raises(ConfigError, match=r"other\.db, and the jobs are in .*jobs\.db"):
                await caller.enqueue(app, double, 1)


COMMIT_AND_EXIT = """
import sqlite3, sys
from holdfast import Holdfast
app = Holdfast("sqlite:///" + sys.argv[1])
connection = sqlite3.connect(sys.argv[1])
app.sync(app.queue("default").enqueue(1, connection=connection))
connection.commit()
"""


async def test_a_program_that_commits_and_exits_at_once_has_woken_a_worker(app: Holdfast, place: str) -> None:
    async with app:
        woken = await parked(app)
        arguments = [sys.executable, "-c", COMMIT_AND_EXIT, place]
        await asyncio.to_thread(subprocess.run, arguments, check=True, timeout=60)
        await eventually(lambda: woken)


async def test_a_program_that_exits_while_its_thread_wakes_a_worker_waits_for_it(
    app: Holdfast, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    telling, may_tell = threading.Event(), threading.Event()

    def tell_slowly(after: After) -> None:
        telling.set()
        may_tell.wait(PATIENCE)
        order.append("told")

    def leave() -> None:
        commit._look_once_more()
        order.append("left")

    monkeypatch.setattr(commit, "follow_up", tell_slowly)
    connection = sqlite3.connect(place)
    async with app:
        await parked(app)
        await app.queue("default").enqueue(1, connection=connection)
        connection.commit()
        await eventually(telling.is_set)
        leaving = threading.Thread(target=leave)
        leaving.start()
        leaving.join(0.2)  # it would be over at once if it did not wait
        may_tell.set()
        leaving.join(PATIENCE)
    connection.close()
    assert order == ["told", "left"]


async def test_a_transaction_that_wakes_nobody_is_not_watched(app: Holdfast, place: str) -> None:
    double = declare(app)
    connection = sqlite3.connect(place)
    async with app:
        await double.options(connection=connection).enqueue(1)
        assert watched() == 0
        connection.commit()
        await burst(app)
        woken = await parked(app)
        await double.options(connection=connection).enqueue(1)
        assert watched() == 1
        connection.close()
        await eventually(lambda: watched() == 0)
        assert not woken


async def test_the_next_transaction_on_the_same_connection_does_not_hide_a_commit(app: Holdfast, place: str) -> None:
    double = declare(app)
    connection = sqlite3.connect(place, isolation_level=None)
    async with app:
        woken = await parked(app)
        connection.execute("BEGIN IMMEDIATE")
        await double.options(connection=connection).enqueue(1)
        connection.execute("COMMIT")
        connection.execute("BEGIN IMMEDIATE")
        await eventually(lambda: woken)
    connection.close()


async def test_what_the_caller_has_set_is_neither_used_nor_changed(app: Holdfast, place: str) -> None:
    double = declare(app)
    connection = sqlite3.connect(place)
    connection.row_factory, connection.text_factory = sqlite3.Row, bytes
    async with app:
        await double.options(connection=connection, job_id="ü").enqueue(1)
        again = await double.options(connection=connection, job_id="ü").enqueue(1)
        assert (again.status, again.id) == ("duplicate", "ü")
        assert (connection.row_factory, connection.text_factory) == (sqlite3.Row, bytes)
        connection.commit()
        assert await transitions(app, "ü") == ["enqueue"]
    connection.close()


async def test_a_connection_that_commits_each_statement_commits_this_one(app: Holdfast, place: str) -> None:
    double = declare(app)
    connection = sqlite3.connect(place, isolation_level=None)
    async with app:
        await double.options(connection=connection, job_id="one").enqueue(1)
        assert not connection.in_transaction
        assert await transitions(app, "one") == ["enqueue"]
    connection.close()


async def test_an_error_undoes_only_the_enqueue(app: Holdfast, place: str, table: str) -> None:
    double = declare(app)
    connection = sqlite3.connect(place)
    async with app:
        connection.execute("INSERT INTO mine VALUES (1)")
        connection.execute(
            "CREATE TEMP TRIGGER no BEFORE INSERT ON main.holdfast_event BEGIN SELECT raise(FAIL, 'no'); END"
        )
        with pytest.raises(sqlite3.IntegrityError, match="no"):
            await double.options(connection=connection, job_id="one").enqueue(1)
        connection.execute("DROP TRIGGER no")
        connection.commit()
        assert await transitions(app, "one") == []
        assert connection.execute("SELECT n FROM mine").fetchall() == [(1,)]
        assert (await burst(app)).started == 0
    connection.close()


async def test_the_drivers_own_errors_are_raised(app: Holdfast, place: str) -> None:
    double = declare(app)
    connection = sqlite3.connect(place)
    connection.close()
    async with app:
        with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
            await double.options(connection=connection).enqueue(1)


async def test_a_lock_that_is_held_for_too_long_is_the_drivers_error(app: Holdfast, place: str) -> None:
    double = declare(app)
    holder, connection = sqlite3.connect(place), sqlite3.connect(place, timeout=0)
    async with app:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            await double.options(connection=connection).enqueue(1)
    holder.close()
    connection.close()


async def test_the_work_is_done_in_the_call_itself(app: Holdfast, place: str) -> None:
    double = declare(app)
    connection = sqlite3.connect(place)
    async with app:
        coroutine = double.options(connection=connection, job_id="one").enqueue(1)
        connection.commit()
        assert await transitions(app, "one") == ["enqueue"]
        assert (await coroutine).status == "queued"
    connection.close()


def test_code_without_an_event_loop_needs_no_open_app(app: Holdfast, place: str) -> None:
    double = declare(app)
    connection = sqlite3.connect(place)
    with app.sync:
        pass  # closed again
    handle = app.sync(double.options(connection=connection, job_id="one").enqueue(1))
    many = app.sync(app.queue("plain").enqueue_many([1, 2, 3], connection=connection))
    plain = app.sync(app.queue("plain").enqueue({"a": 1}, connection=connection, job_id="two"))
    connection.commit()
    assert (handle.status, plain.status, many.queued) == ("queued", "queued", 3)
    assert app.sync(handle.job()).id == "one"
    app.sync.close()
    connection.close()


async def test_a_file_without_our_tables_is_refused(app: Holdfast, path: Path) -> None:
    double = declare(app)
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE mine (n INTEGER)")
    with pytest.raises(ConfigError, match="has no table holdfast_meta yet; open the app once before"):
        await double.options(connection=connection).enqueue(1)
    connection.close()


async def test_another_main_database_is_refused_even_with_ours_attached(app: Holdfast, place: str) -> None:
    double = declare(app)
    connection = sqlite3.connect(":memory:")
    connection.execute("ATTACH ? AS jobs", (place,))
    with pytest.raises(ConfigError, match="it is to a database in memory"):
        await double.options(connection=connection).enqueue(1)
    connection.close()


async def test_what_is_no_connection_is_refused(app: Holdfast, place: str) -> None:
    double = declare(app)
    with pytest.raises(ConfigError, match=r"cannot use a builtins\.object; give a connection of sqlite3, aiosqlite"):
        await double.options(connection=object()).enqueue(1)


async def test_memory_has_no_transactions_to_share() -> None:
    app = Holdfast("memory://")
    double = declare(app)
    connection = sqlite3.connect(":memory:")
    with pytest.raises(ConfigError, match="memory:// has no transactions that a caller could share"):
        await double.options(connection=connection).enqueue(1)
    connection.close()


async def test_many_take_one_connection(app: Holdfast, place: str) -> None:
    double = declare(app)
    one, two = sqlite3.connect(place), sqlite3.connect(place)
    async with app:
        mine = double.options(connection=one)
        assert (await mine.enqueue_many(mine.args(n) for n in range(3))).queued == 3
        with pytest.raises(ConfigError, match="give the connection to enqueue_many instead"):
            await app.enqueue_many([mine.args(1)], connection=two)
        with pytest.raises(ConfigError, match="give the connection to enqueue_many instead"):
            await app.enqueue_many([mine.args(1)])
        one.commit()
        assert (await burst(app)).completed == 3
    one.close()
    two.close()
