"""PostgreSQL as it is in life: servers that restart, connections that break, transactions that stay open, crowds."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner
from schemas import drop
from servers import PostgresServer, postgres
from support import PATIENCE, WorkerProcess, burst, eventually, ledger_lines, processes, working
from worker_process import make_app

from holdfast import Holdfast, State, StoreBusy, StoreError, StoreTooNew
from holdfast.cli.root import cli
from holdfast.core.transition import TRANSITIONS, header
from holdfast.errors import ConfigError, MissingExtra
from holdfast.store import open_store
from holdfast.store.contract import KEEP, Complete, Conflict, NewJob, Released, Session
from holdfast.store.postgres import PostgresStore, sql
from holdfast.store.postgres.call import arguments
from holdfast.store.postgres.connection.errors import translate
from holdfast.store.postgres.url import parse

LEASE = {"lease": 1.0, "poll": 0.2}
UPDATE = Conflict(on_conflict="update")
_numbers = itertools.count(1)


@pytest.fixture
def schema() -> str:
    return f"test_{os.getpid()}_{next(_numbers)}"


@pytest.fixture
def url(schema: str) -> Iterator[str]:
    yield postgres().url(schema)
    drop(schema)


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server of the test's own, to be stopped and started."""
    server = PostgresServer()
    server.start()
    yield server
    server.close()


def connect() -> psycopg.Connection[Any]:
    return psycopg.connect(postgres().url().partition("?")[0], autocommit=True)


async def completed(app: Holdfast) -> int:
    info = await app.queue("default").info()
    return 0 if info is None else info.counts["completed"]


def cut_connections(schema: str) -> int:
    """Every connection of the store is gone, as when a firewall drops them."""
    with connect() as connection:
        found = connection.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE application_name = 'holdfast' AND pid <> pg_backend_pid()"
        ).fetchone()
        assert found is not None
        return int(found[0])


# --- workers


async def test_processes_share_the_jobs_and_each_runs_once(url: str, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    app = make_app(url, ledger)
    touch = app.registry.tasks["touch"]
    workers = [WorkerProcess(url, ledger, slots=5) for _ in range(3)]
    with processes(*workers):
        async with app:
            await eventually(lambda: _workers(app, 3))
            await touch.enqueue_many(touch.args() for _ in range(400))
            await eventually(lambda: _count(app, 400))
        for worker in workers:
            worker.signal(signal.SIGTERM)
        reports = [await worker.end() for worker in workers]
    starts = Counter(id for what, id, _ in ledger_lines(ledger) if what == "start")
    assert len(starts) == 400
    assert set(starts.values()) == {1}
    assert sum(report["completed"] for report in reports) == 400


async def _workers(app: Holdfast, count: int) -> bool:
    return len(await app.workers()) == count


async def _count(app: Holdfast, count: int) -> bool:
    return await completed(app) == count


async def test_a_killed_workers_jobs_are_done_by_another(url: str, tmp_path: Path) -> None:
    ledger, release = tmp_path / "ledger", tmp_path / "release"
    app = make_app(url, ledger)
    hang = app.registry.tasks["hang"]
    first, second = (WorkerProcess(url, ledger, slots=4, **LEASE) for _ in range(2))
    with processes(first, second):
        async with app:
            await hang.enqueue_many(hang.args(str(release)) for _ in range(8))
            await eventually(lambda: len(ledger_lines(ledger, "start")) == 8)
            first.signal(signal.SIGKILL)
            release.touch()
            await eventually(lambda: _count(app, 8))
            assert not [job for job in (await app.jobs()).jobs if job.state is not State.COMPLETED]


async def test_a_server_restart_in_the_middle_loses_nothing(server: PostgresServer, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    app = make_app(server.url(), ledger)
    touch = app.registry.tasks["touch"]
    workers = [WorkerProcess(server.url(), ledger, slots=3) for _ in range(2)]
    with processes(*workers):
        async with app:
            await touch.enqueue_many(touch.args() for _ in range(1500))
            await eventually(lambda: len(ledger_lines(ledger, "start")) > 50)
            await asyncio.to_thread(server.stop)
            await asyncio.to_thread(server.start)
            await eventually(lambda: _count(app, 1500))
    starts = Counter(id for what, id, _ in ledger_lines(ledger) if what == "start")
    assert len(starts) == 1500


async def test_cut_connections_are_rebuilt_and_no_worker_is_deaf(url: str, schema: str) -> None:
    app = Holdfast(url)

    @app.task()
    async def echo(text: str) -> str:
        return text

    async with working(app, poll=60):
        assert await echo.call("before") == "before"
        assert cut_connections(schema) >= 2
        for number in range(3):
            assert await asyncio.wait_for(echo.call(str(number)), 20) == str(number)


async def test_a_worker_that_is_cancelled_as_it_starts_ends(url: str) -> None:
    async with Holdfast(url) as app:
        running = asyncio.create_task(app.worker(["default"]).run())
        await asyncio.sleep(0)
        running.cancel()
        done, _ = await asyncio.wait([running], timeout=PATIENCE)
        assert done
        assert running.cancelled()


async def test_a_worker_that_is_stopped_as_it_starts_leaves_nothing_running(url: str) -> None:
    app, before = Holdfast(url), len(asyncio.all_tasks())
    for turns in range(1, 60, 7):
        async with app:
            worker = app.worker(["default"])
            running = asyncio.create_task(worker.run())
            for _ in range(turns):
                await asyncio.sleep(0)
            worker.stop()
            await asyncio.wait_for(running, PATIENCE)
    await eventually(lambda: len(asyncio.all_tasks()) == before)


async def test_a_worker_starts_while_a_callers_transaction_is_open(url: str) -> None:
    app = Holdfast(url)

    @app.task()
    async def ping() -> str:
        return "pong"

    async with app:
        await burst(app)
        async with await psycopg.AsyncConnection.connect(url.partition("?")[0]) as connection:
            await ping.options(connection=connection, key="k").enqueue()
            handle = await ping.enqueue()
            assert (await burst(app)).completed == 1
            assert await handle.result() == "pong"
            await connection.rollback()


async def test_a_parked_worker_is_woken_without_polling(url: str) -> None:
    app = Holdfast(url)

    @app.task()
    async def echo(text: str) -> str:
        return text

    async with working(app, poll=600):
        for number in range(30):
            assert await asyncio.wait_for(echo.call(str(number)), 5) == str(number)


async def test_many_who_begin_to_listen_at_once_share_one_connection(url: str) -> None:
    """Each further one would hear everything again, and would never be closed."""
    store = PostgresStore(url)
    await store.open()
    ears = await asyncio.gather(*(store.listen(lambda: None, lambda _: None) for _ in range(10)))
    (channel,) = {ear.address.partition(":")[0] for ear in ears}
    with connect() as other:
        query = "SELECT count(*) FROM pg_stat_activity WHERE query = %s"
        assert other.execute(query, (f'LISTEN "{channel}"',)).fetchone() == (1,)
    await store.close()


async def test_without_listening_workers_and_callers_poll(url: str) -> None:
    app = Holdfast(f"{url}&listen=off&prepare=off")

    @app.task()
    async def echo(text: str) -> str:
        return text

    async with working(app, poll=0.05):
        assert await echo.call("heard") == "heard"


# --- crowds


def deadlocks() -> int:
    with connect() as connection:
        found = connection.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'").fetchone()
        assert found is not None
        return int(found[0])


async def test_a_crowd_on_the_same_few_ids_never_deadlocks_and_never_errs(url: str) -> None:
    before = deadlocks()
    stores = [PostgresStore(url) for _ in range(4)]
    for store in stores:
        await store.open()
    ids = [f"j{number}" for number in range(12)]

    async def produce(number: int) -> None:
        store = stores[number % 4]
        for turn in range(15):
            some = ids[(turn * 5 + number) % 12 :] + ids[: (turn * 5 + number) % 12]
            some = some[::-1] if number % 2 else some
            key = f"k{number % 3}" if number % 3 else None
            jobs = [NewJob(id=id, task="t", payload=b"", key=key) for id in some[:6]]
            await store.enqueue("q", jobs, UPDATE if turn % 2 else Conflict(on_failed="requeue"))
            if turn % 5 == 4:
                await store.cancel("q", some[0], "signal")
                await store.reap("q")
                await store.expire("q")

    async def work(number: int) -> int:
        store = stores[number % 4]
        session = Session(id=f"s{number}", name="", host="", pid=0, queues=("q",))
        await store.register(session)
        settlements: list[Any] = []
        done = 0
        for turn in range(40):
            found = await store.settle_and_claim(session, settlements, ["q"], 4, park=True)
            done += sum(settled.reply == "ok" for settled in found.settled)
            settlements = [
                Complete(job.lease, b"") if (turn + job.lease.run) % 2 else Released(job.lease) for job in found.claimed
            ]
        await store.settle_and_claim(session, settlements, [], 0)
        await store.leave(session)
        return done

    try:
        await asyncio.gather(*(produce(number) for number in range(12)), *(work(number) for number in range(12)))
    finally:
        for store in stores:
            await store.close()
    assert deadlocks() == before


# --- the log


async def read_all(store: PostgresStore, position: str | None, limit: int = 7) -> tuple[list[Any], str | None]:
    found: list[Any] = []
    while True:
        page = await store.events(position, limit=limit)
        assert not page.gap
        assert not page.reset
        position = page.position
        if not page.events:
            return found, position
        found += page.events


async def test_a_transaction_open_across_many_reads_is_still_read_and_nothing_twice(url: str, schema: str) -> None:
    store = PostgresStore(url)
    await store.open()
    late = await psycopg.AsyncConnection.connect(store.caller.address.conninfo)
    seen: list[str] = []
    position: str | None = None
    try:
        await store.enqueue("q", [NewJob(id="before", task="t", payload=b"")])
        jobs = [NewJob(id=f"late-{number}", task="t", payload=b"", fresh=True) for number in (1, 2, 3)]
        await late.execute(store.caller.statement("enqueue"), arguments.enqueue(None, "q", jobs, KEEP))
        for number in range(20):
            await store.enqueue("q", [NewJob(id=f"j{number}", task="t", payload=b"")])
            events, position = await read_all(store, position, limit=1 + number % 3)
            seen += [event.id for event in events]
        assert seen == ["before", *(f"j{number}" for number in range(20))]
        await late.commit()
        events, position = await read_all(store, position, limit=2)
        assert [event.id for event in events] == ["late-1", "late-2", "late-3"]
        await store.enqueue("q", [NewJob(id="after", task="t", payload=b"")])
        events, position = await read_all(store, position)
        assert [event.id for event in events] == ["after"]
    finally:
        await late.close()
        await store.close()


async def test_under_load_a_reader_gets_every_event_once(url: str) -> None:
    stores = [PostgresStore(url) for _ in range(3)]
    for store in stores:
        await store.open()
    done = asyncio.Event()

    async def write(number: int) -> None:
        for turn in range(40):
            jobs = [NewJob(id=f"{number}-{turn}-{each}", task="t", payload=b"") for each in range(1 + turn % 4)]
            await stores[number % 2].enqueue(f"q{number % 3}", jobs)

    async def read() -> list[str]:
        seen: list[str] = []
        position: str | None = None
        while True:
            last = done.is_set()
            events, position = await read_all(stores[2], position, limit=11)
            seen += [event.id for event in events]
            if last:
                return seen

    try:
        reader = asyncio.create_task(read())
        await asyncio.gather(*(write(number) for number in range(8)))
        done.set()
        seen = await reader
    finally:
        for store in stores:
            await store.close()
    assert len(seen) == len(set(seen)) == 8 * 100


async def test_in_the_log_a_job_is_never_claimed_before_it_was_enqueued(url: str) -> None:
    """A turn that began before an enqueue, and claims after its commit, has the lower number of the two."""
    store, session = PostgresStore(url), Session(id="s", name="w", host="-", pid=0, queues=("q",), lease_ms=60_000)
    await store.open()
    await store.register(session)
    stop = asyncio.Event()

    async def turns() -> None:
        held: list[Any] = []
        while held or not stop.is_set():
            done = [Complete(job.lease, b"null") for job in held]
            held = (await store.settle_and_claim(session, done, ("q",), 10, park=True)).claimed

    async def produce(name: int) -> None:
        for number in range(40):
            await store.enqueue("q", [NewJob(id=f"{name}-{number}", task="t", payload=b"", fresh=True)])

    worker = asyncio.create_task(turns())
    await asyncio.gather(*(produce(name) for name in range(5)))
    await eventually(lambda: _nothing_waits(store))
    stop.set()
    await worker
    page = await store.events(limit=10_000)
    by_job: dict[str, list[str]] = {}
    for event in page.events:
        by_job.setdefault(event.id, []).append(event.transition)
    assert len(by_job) == 200
    assert {tuple(seen) for seen in by_job.values()} == {("enqueue", "claim", "complete")}
    await store.close()


@pytest.mark.parametrize("key", ["k", None], ids=["keyed", "keyless"])
async def test_a_turn_leaves_what_came_in_after_it_had_begun_to_the_next(
    url: str, schema: str, key: str | None
) -> None:
    """It is the older transaction, and must not come to wait for a younger one."""
    store, session = PostgresStore(url), Session(id="s", name="w", host="-", pid=0, queues=("q",), lease_ms=60_000)
    await store.open()
    await store.register(session)
    await store.enqueue("q", [NewJob(id=name, task="t", payload=b"") for name in ("a", "b")])
    held = (await store.settle_and_claim(session, [], ("q",), 2)).claimed
    done = [Complete(job.lease, b"null") for job in held]
    with connect() as other:
        with other.transaction():
            other.execute(f"SELECT 1 FROM \"{schema}\".job WHERE id = 'b' FOR UPDATE")
            turn = asyncio.create_task(store.settle_and_claim(session, done, ("q",), 2))  # completes a, waits for b
            await eventually(lambda: _somebody_waits(other))
            await store.enqueue("q", [NewJob(id="late", task="t", payload=b"", key=key)])
        first = await turn
    assert first.claimed == []
    assert first.next_at_ms is not None
    assert first.next_at_ms <= first.now_ms, "the next turn follows at once"
    (late,) = (await store.settle_and_claim(session, [], ("q",), 2)).claimed
    assert late.lease.id == "late"
    seen = [event.transition for event in (await store.events()).events if event.id == "late"]
    assert seen == ["enqueue", "claim"]
    await store.close()


async def _somebody_waits(connection: psycopg.Connection[Any]) -> bool:
    found = connection.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%turn(%'"
    ).fetchone()
    return found is not None and found[0] > 0


async def _nothing_waits(store: PostgresStore) -> bool:
    return not await store.pending(("q",))


async def test_a_reader_whose_late_event_was_trimmed_is_told_of_the_gap(url: str, schema: str) -> None:
    store = PostgresStore(f"{url}&history=5")
    await store.open()
    await store.enqueue("q", [NewJob(id="first", task="t", payload=b"")])
    async with await psycopg.AsyncConnection.connect(postgres().url().partition("?")[0]) as late:
        joined = store.join(late).enqueue("q", [NewJob(id="late", task="t", payload=b"")], Conflict())
        assert not isinstance(joined, list)
        await joined
        await store.enqueue("q", [NewJob(id="second", task="t", payload=b"")])
        before = await store.events()
        assert [event.id for event in before.events] == ["first", "second"]
        await store.enqueue("q", [NewJob(id=str(number), task="t", payload=b"") for number in range(20)])
        up_to_date = await store.events(before.position)
        assert (len(up_to_date.events), up_to_date.gap) == (20, 0)
        await late.commit()
    await store.expire("q")
    page = await store.events(up_to_date.position)
    assert (page.events, page.gap) == ([], 1), "the event of the late transaction went before anybody could read it"
    assert (await store.events(page.position)).gap == 0, "and that is said once"
    await store.close()


async def test_a_late_transaction_that_is_rolled_back_or_not_ours_leaves_no_gap(url: str) -> None:
    store = PostgresStore(url)
    await store.open()
    async with await psycopg.AsyncConnection.connect(postgres().url().partition("?")[0]) as other:
        await other.execute("SELECT pg_current_xact_id()")
        await store.enqueue("q", [NewJob(id="first", task="t", payload=b"")])
        page = await store.events()
        await other.rollback()
    assert (await store.events(page.position)).gap == 0
    await store.close()


# --- the schema


@pytest.mark.parametrize("name", [name for name in TRANSITIONS if name != "unblock"])
def test_each_transitions_sql_says_what_the_table_says(name: str) -> None:
    lines = sql.text(f"transition/{name}.sql").splitlines()[:3]
    assert "\n".join(line.removeprefix("-- ") for line in lines) == header(name)


async def test_many_open_a_schema_that_is_not_there_and_it_is_made_once(url: str) -> None:
    stores = [PostgresStore(url) for _ in range(8)]
    await asyncio.gather(*(store.open() for store in stores))
    await stores[0].enqueue("q", [NewJob(id="j", task="t", payload=b"")])
    assert await stores[7].get("q", "j") is not None
    for store in stores:
        await store.close()


async def test_a_newer_schema_is_refused(url: str, schema: str) -> None:
    store = PostgresStore(url)
    await store.open()
    await store.close()
    with connect() as connection:
        connection.execute(f"UPDATE \"{schema}\".meta SET value = '99' WHERE name = 'schema'")
    newest = sql.migrations()[-1][0]
    with pytest.raises(StoreTooNew, match=f"has schema 99, and this Holdfast knows {newest}: upgrade holdfast"):
        await store.open()


async def test_a_user_without_rights_on_the_database_uses_a_schema_that_was_made_for_it(schema: str) -> None:
    role = f"role_{schema}"
    with connect() as connection:
        connection.execute(f'CREATE ROLE "{role}" LOGIN')
        connection.execute(f'CREATE SCHEMA "{schema}" AUTHORIZATION "{role}"')
    store = PostgresStore(postgres().url(schema).replace("holdfast@", f"{role}@"))
    await store.open()
    (answer,) = await store.enqueue("q", [NewJob(id="j", task="t", payload=b"")])
    assert answer.status == "queued"
    await store.close()
    with connect() as connection:
        connection.execute(f'DROP SCHEMA "{schema}" CASCADE')
        connection.execute(f'DROP ROLE "{role}"')


# --- what goes wrong


async def test_no_server_is_told_with_what_to_look_at(server: PostgresServer) -> None:
    server.stop()
    with pytest.raises(StoreError, match=r"the connection was lost or refused .* is the server running"):
        await PostgresStore(f"{server.url()}&patience=0").open()


def test_urls() -> None:
    place = parse("postgresql://me@host:5433/db?namespace=jobs&sslmode=require&pool=3&listen=off")
    assert (place.schema, place.pool, place.listen) == ("jobs", 3, False)
    assert place.conninfo == "postgresql://me@host:5433/db?sslmode=require"
    assert "secret" not in str(parse("postgresql://me:secret@host/db"))
    with pytest.raises(ConfigError, match=r"schema=\*\*\*: a letter or _, then letters, digits, _ and -, 63 at most"):
        parse("postgresql://host/db?schema=a b")
    with pytest.raises(ConfigError, match="besides libpq's own options, known are schema=NAME"):
        parse("postgresql://host/db?colour=red")


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (psycopg.errors.DeadlockDetected("deadlock"), StoreBusy, "locked by others"),
        (psycopg.errors.TooManyConnections("sorry"), StoreBusy, "takes no more connections"),
        (psycopg.errors.DiskFull("no space"), StoreError, "no room left in the server"),
        (psycopg.errors.AdminShutdown("bye"), StoreError, "the connection was lost or refused"),
        (psycopg.errors.ReadOnlySqlTransaction("no"), StoreError, "replica or read-only"),
        (psycopg.errors.UndefinedTable("what"), StoreError, "run holdfast migrate"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_errors_say_what_to_do(error: psycopg.Error, kind: type[Exception], text: str) -> None:
    ours = translate(error, parse("postgresql://host/db"))
    assert isinstance(ours, kind)
    assert text in str(ours)


async def test_text_with_nul_is_refused_and_names_the_reason(url: str) -> None:
    store = PostgresStore(url)
    await store.open()
    with pytest.raises(ConfigError, match="NUL"):
        await store.enqueue("q", [NewJob(id="a\0b", task="t", payload=b"")])
    (answer,) = await store.enqueue("q", [NewJob(id="ab", task="t", payload=b"\0")])
    assert answer.status == "queued"
    await store.close()


# --- the command line


async def test_migrate_prints_the_sql_and_applied_by_hand_it_is_what_open_makes(url: str, schema: str) -> None:
    def columns() -> list[Any]:
        with connect() as connection:
            tables = connection.execute(
                "SELECT table_name, column_name, data_type, column_default FROM information_schema.columns"
                " WHERE table_schema = %s ORDER BY 1, 2", (schema,),
            )  # fmt: skip
            indexes = connection.execute(
                "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = %s ORDER BY 1", (schema,)
            )
            functions = connection.execute(
                "SELECT proname, prosrc FROM pg_proc WHERE pronamespace = %s::regnamespace ORDER BY 1, 2", (schema,)
            )
            return [*tables, *indexes, *functions]

    result = CliRunner().invoke(cli, ["migrate", "--url", url, "--sql"])
    assert result.exit_code == 0, result.output
    with connect() as connection:
        connection.execute(result.output)
    by_hand = columns()
    assert len(by_hand) > 100
    store = PostgresStore(url)
    await store.open()
    await store.close()
    assert columns() == by_hand, "nothing was left to do"
    with connect() as connection:
        connection.execute(f'DROP SCHEMA "{schema}" CASCADE')
    await store.open()
    await store.close()
    assert columns() == by_hand


def test_migrate_makes_the_schema(url: str) -> None:
    result = CliRunner().invoke(cli, ["migrate", "--url", url])
    assert (result.exit_code, "the schema is current" in result.output) == (0, True)


@pytest.mark.parametrize("command", ["jobs", "queues", "events", "doctor"])
def test_whoever_looks_at_a_mistyped_schema_makes_none(url: str, schema: str, command: str) -> None:
    result = CliRunner().invoke(cli, [command, "--url", url])
    assert (result.exit_code, "there is no store at postgresql://" in result.stderr) == (2, True)
    with connect() as connection:
        found = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)).fetchone()
    assert found is None


def test_only_postgres_has_its_schema_as_sql(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["migrate", "--url", f"sqlite:///{tmp_path}/jobs.db", "--sql"])
    assert "only a postgresql:// store has its schema as SQL" in result.output


def test_without_the_driver_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("holdfast.store.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra, match=r"postgresql:// needs a package that is missing: pip install 'holdfast-q"):
        open_store("postgresql://host/db")
