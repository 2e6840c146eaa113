"""Keys that a queue requires, limits of keys that code declares, and a rate for one task."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support import burst

from holdfast import ConfigError, Every, Holdfast, Job, Rate, Retry, State
from holdfast.cli.root import cli

REFUSED = r"task 'fetch': its jobs must have a key \(key_required\): .*options\(key=\.\.\.\)"
PLAIN = r"queue 'plain': its jobs must have a key \(key_required\)"


@pytest.fixture
def fetch(app: Holdfast) -> Any:
    """A task in a queue that requires a key."""
    app.queue("api", key_required=True, key_concurrency=1)

    @app.task(queue="api")
    async def fetch(n: int) -> int:
        return n

    return fetch


@pytest.mark.parametrize("way", ["enqueue", "call", "many", "app_many", "update", "plain", "plain_many", "schedule"])
async def test_a_job_without_a_key_is_refused_on_every_way_in(app: Holdfast, fetch: Any, way: str) -> None:
    plain = app.queue("plain", handler="plain_handlers:echo", key_required=True)
    ways: dict[str, Any] = {
        "enqueue": lambda: fetch.enqueue(1),
        "call": lambda: fetch.call(1),
        "many": lambda: fetch.enqueue_many(fetch.args(n) for n in range(3)),
        "app_many": lambda: app.enqueue_many([fetch.options(key="a").args(1), fetch.args(2)]),
        "update": lambda: fetch.options(job_id="x", on_conflict="update").enqueue(2),
        "plain": lambda: plain.enqueue(1),
        "plain_many": lambda: plain.enqueue_many([1, 2]),
        "schedule": lambda: app.schedules.add("often", Every(60), fetch.args(1)),
    }
    async with app:
        await fetch.options(key="a", job_id="x").enqueue(1)
        with pytest.raises(ConfigError, match=PLAIN if way.startswith("plain") else REFUSED):
            await ways[way]()
        assert len((await app.jobs()).jobs) == 1
        assert (await plain.options(key="a").enqueue(1)).status == "queued"


def test_a_schedule_that_code_declares_must_have_a_key(app: Holdfast, fetch: Any) -> None:
    with pytest.raises(ConfigError, match=REFUSED):
        app.schedule("often", Every(60), fetch.args(1))
    app.schedule("often", Every(60), fetch.options(key="a").args(1))


async def test_a_flow_and_a_transaction_must_have_keys(app: Holdfast, fetch: Any, path: Path) -> None:
    async with app:
        with pytest.raises(ConfigError, match=REFUSED):
            app.flow("f").map(fetch, [1, 2])
        with sqlite3.connect(path, isolation_level=None) as connection:
            connection.execute("BEGIN IMMEDIATE")
            with pytest.raises(ConfigError, match=REFUSED):
                await fetch.options(connection=connection).enqueue(1)
            await fetch.options(connection=connection, key="a").enqueue(1)
            connection.execute("COMMIT")
        connection.close()
        assert [job.key for job in (await app.jobs()).jobs] == ["a"]


async def test_a_chain_goes_on_with_a_key(app: Holdfast, fetch: Any) -> None:
    @app.task(queue="first", retry=Retry(failures=1))
    async def begin(job: Job, key: str | None) -> Any:
        return job.continue_with(fetch.options(key=key), 5)

    async with app:
        keyed, keyless = await begin.enqueue("a"), await begin.enqueue(None)
        await burst(app)
        assert await keyed.result() == 5
        record = await keyless.job()
        assert (record.state, record.error and record.error.type) == (State.FAILED, "ConfigError")


def test_the_nearest_says_whether_a_key_is_required(app: Holdfast) -> None:
    app.queue("api", key_required=True)

    @app.task(queue="api", key_required=False)
    async def free() -> None: ...

    @app.task(key_required=True)
    async def bound() -> None: ...

    assert free.args().job.key is None
    with pytest.raises(ConfigError, match="task 'bound': its jobs must have a key"):
        bound.args()
    with pytest.raises(ConfigError, match="key_required='yes': True or False"):
        app.task(name="odd", key_required="yes")(lambda: None)  # type: ignore[arg-type]


def test_the_command_line_knows_what_the_store_knows(app: Holdfast, fetch: Any, url: str) -> None:
    app.sync(burst(app))
    words = ["enqueue", "--url", url, "--queue", "api", "n=1"]
    refused = CliRunner().invoke(cli, words)
    assert refused.exit_code != 0
    told = f"{refused.output} {refused.exception}"
    assert "queue 'api': its jobs must have a key (key_required): give --key" in told
    assert CliRunner().invoke(cli, [*words, "--key", "a"]).exit_code == 0


# --- limits of keys


async def test_limits_of_keys_are_declared_with_their_queue(app: Holdfast) -> None:
    running: dict[str, int] = {}
    most: dict[str, int] = {}

    async def fetch(job: Job, payload: Any) -> None:
        key = str(job.key)
        running[key] = running.get(key, 0) + 1
        most[key] = max(most.get(key, 0), running[key])
        for _ in range(3):
            await asyncio.sleep(0)
        running[key] -= 1

    api = app.queue("api", handler=fetch, key_concurrency=1, key_limits={"acme": 3})
    async with app:
        await api.options(key="acme").enqueue_many(range(9))
        await api.options(key="small").enqueue_many(range(3))
        await burst(app)
        assert most == {"acme": 3, "small": 1}
        info = await api.info()
        assert info is not None
        assert (info.settings.key_limits, info.key_overrides) == ({"acme": 3}, {})
        with pytest.raises(ConfigError, match=r"'key_limits' is declared in code: live, .*limit_key"):
            await api.set(key_limits={"acme": 5})
        with pytest.raises(ConfigError, match="'key_required' is not a setting of a queue"):
            await api.set(clear=["key_required"])


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"acme": 0}, "key_limits: 'acme': 0: a whole number from 1"),
        ({"acme": "3"}, "Expected `int`, got `str`"),
        ({"": 3}, "a concurrency key is a string of at least one character"),
        ({"a\0": 3}, "NUL character"),
        (["acme"], "give a dict, such as {'acme': 5}"),
    ],
)
def test_limits_of_keys_that_cannot_be_are_refused_at_once(app: Holdfast, limits: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        app.queue("api", key_limits=limits)
    assert message in str(caught.value)


# --- rates of tasks


async def test_a_task_with_a_rate_has_a_queue_of_its_own(app: Holdfast) -> None:
    @app.task(rate=Rate(2, per=60))
    async def call_api(n: int) -> int:
        return n

    @app.task(queue="slow", rate=Rate(1, per=60))
    async def slow() -> None: ...

    @app.task()
    async def plenty() -> None: ...

    assert (call_api.queue, slow.queue, plenty.queue) == ("call_api", "slow", "default")
    async with app:
        for n in range(5):
            await call_api.enqueue(n)
            await slow.enqueue()
            await plenty.enqueue()
        worker = app.worker()
        running = asyncio.create_task(worker.run())
        done = await _until_done(app, 8)
        await worker.stop()
        await running
        assert done == {"call_api": 2, "slow": 1, "default": 5}


async def _until_done(app: Holdfast, count: int) -> dict[str, int]:
    from support import eventually

    async def done() -> dict[str, int]:
        found: dict[str, int] = {}
        for job in (await app.jobs(state="completed")).jobs:
            found[job.queue] = found.get(job.queue, 0) + 1
        return found if sum(found.values()) >= count else {}

    found: dict[str, int] = await eventually(done)
    return found


def test_a_rate_of_one_task_is_not_for_a_queue_that_others_share(app: Holdfast) -> None:
    app.task(name="first", queue="api")(lambda: None)
    with pytest.raises(ConfigError, match="'second': queue 'api' has task 'first' already, and 'second' has a rate="):
        app.task(name="second", queue="api", rate=Rate(1))(lambda: None)
    app.task(name="third", rate=Rate(1))(lambda: None)
    with pytest.raises(ConfigError, match="'fourth': queue 'third' has task 'third' already, and 'third' has a rate="):
        app.task(name="fourth", queue="third")(lambda: None)
    with pytest.raises(ConfigError, match=r"rate=5: give Rate\(count"):
        app.task(name="fifth", rate=5)(lambda: None)  # type: ignore[arg-type]
    assert set(app.registry.tasks) == {"first", "third"}
