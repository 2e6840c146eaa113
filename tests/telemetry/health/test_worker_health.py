"""The health of real workers: starting, working, draining, stuck, without a store; and of several processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import servers
from cli_shop import Process, Shop, in_shop
from probe import Scrape, ask, get
from support import eventually, until, working

from holdfast import ConfigError, Holdfast
from holdfast.telemetry.health.health import LoopBeat

Start = Callable[..., Process]


async def test_a_worker_is_live_and_ready_while_it_works(app: Holdfast) -> None:
    app.queue("mail")
    async with working(app, metrics_port=0, health_port=0, name="w") as running:
        (url,) = running.worker.urls
        assert (await ask(f"{url}/live")).json["status"] == "ok"
        ready = await ask(f"{url}/ready")
        assert (ready.code, ready.json["worker"], ready.json["reasons"]) == (200, "w", [])
        assert (await ask(f"{url}/metrics", Accept="application/openmetrics-text")).body.endswith("# EOF\n")
    assert (running.worker.urls, running.worker.ready().reasons) == ((), ("the worker has ended",))


async def test_two_ports_share_the_paths(app: Holdfast) -> None:
    app.queue("mail")
    free = servers.free_port()
    async with working(app, metrics_port=0, health_port=free) as running:
        metrics, health = running.worker.urls
        assert health == f"http://127.0.0.1:{free}"
        codes = [(await ask(url + path)).code for url in (metrics, health) for path in ("/metrics", "/ready")]
    assert codes == [200, 404, 404, 200]


async def test_a_port_that_is_taken_keeps_a_worker_from_starting(app: Holdfast) -> None:
    app.queue("mail")
    async with working(app, metrics_port=0) as running:
        taken = int(running.worker.urls[0].rpartition(":")[2])
        other = app.worker(metrics_port=taken)
        with pytest.raises(ConfigError, match="another program listens"):
            await other.start()
        assert not other.running


async def test_a_worker_that_drains_is_live_and_not_ready(app: Holdfast) -> None:
    gate = asyncio.Event()

    @app.task()
    async def wait() -> None:
        await gate.wait()

    async with working(app, health_port=0, drain=60) as running:
        await wait.enqueue()
        await eventually(lambda: running.worker.active)
        url = running.worker.urls[0]
        running.worker.stop()
        report = await eventually(lambda: _not_ready(url))
        assert report["reasons"] == ["the worker drains: it takes no more jobs"]
        assert (await ask(f"{url}/live")).code == 200
        gate.set()


async def _not_ready(url: str) -> dict[str, object] | None:
    reply = await ask(f"{url}/ready")
    return reply.json if reply.code == 503 else None


async def test_a_handler_that_holds_up_the_loop_is_seen_from_outside(app: Holdfast) -> None:
    """The port answers from a thread of its own: the loop of this test is stuck, too."""
    gate, seen, urls = threading.Event(), list[dict[str, object]](), list[str]()

    @app.task()
    async def block() -> None:
        gate.wait()

    def look() -> None:
        until(lambda: get(f"{urls[0]}/live").code == 503)
        seen.extend(get(urls[0] + path).json for path in ("/live", "/ready"))
        gate.set()

    async with working(app, health_port=0, lease=0.3, wedged_after=0.6) as running:
        urls += running.worker.urls
        looking = asyncio.get_running_loop().run_in_executor(None, look)  # before this loop is stuck
        await block.enqueue()
        await looking
        await eventually(lambda: running.worker.live().ok)
    for report in seen:
        assert any(str(reason).startswith("the event loop has not moved for ") for reason in report["reasons"])  # type: ignore[attr-defined]


def test_a_loop_that_moves_has_a_pulse() -> None:
    pulse = LoopBeat()

    async def beat() -> float:
        pulse.start()
        return pulse.moved_ago

    assert asyncio.run(beat()) == 0.0
    pulse.stop()


@pytest.mark.parametrize("kind", ["valkey", "postgres"])
async def test_a_worker_whose_store_is_frozen_is_not_ready_until_it_is_back(kind: str) -> None:
    """The server is stopped by a signal: its connections stay, and it says nothing."""
    with ExitStack() as stack:
        url, pids = _server(kind, stack)
        app = Holdfast(url)
        app.queue("mail")
        async with working(app, health_port=0, lease=1.0) as running:
            port = running.worker.urls[0]
            assert (await ask(f"{port}/ready")).code == 200
            try:
                _send(pids(), signal.SIGSTOP)
                report = await eventually(lambda: _not_ready(port))
                assert any("the store has not answered" in str(reason) for reason in report["reasons"])
                assert (await ask(f"{port}/live")).code == 200
                assert Scrape((await ask(f"{port}/metrics/store")).body).value("holdfast_store_up") == 0
            finally:
                _send(pids(), signal.SIGCONT)
            await eventually(lambda: _is_ready(port))


async def _is_ready(url: str) -> bool:
    return (await ask(f"{url}/ready")).code == 200


def _server(kind: str, stack: ExitStack) -> tuple[str, Callable[[], list[int]]]:
    """Return the URL of a server of one's own, and what lists its processes."""
    if kind == "valkey":
        binary = servers.valkey_binary() or servers.redis_binary()
        assert binary
        valkey = stack.enter_context(closing(servers.RedisServer(binary)))
        assert valkey.process is not None
        number = valkey.process.pid
        return valkey.url, lambda: [number]
    postgres = stack.enter_context(closing(servers.PostgresServer()))
    postgres.start()
    assert postgres._process is not None
    parent = postgres._process.pid
    return postgres.url(), lambda: [parent, *_children(parent)]


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _send(pids: list[int], number: int) -> None:
    for pid in pids:
        os.kill(pid, number)


# --- processes


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A shop in the current folder, named by HOLDFAST_APP."""
    with in_shop(tmp_path, monkeypatch) as shop:
        yield shop


@pytest.fixture
def start(shop: Shop) -> Iterator[Start]:
    """Starts commands, none of which outlives the test."""
    with ExitStack() as stack:
        yield lambda *words: stack.enter_context(closing(Process(shop.folder, *words)))


def test_a_command_serves_its_port_and_says_where(shop: Shop, start: Start) -> None:
    process = start("worker", "--metrics-port", "0", "--json")
    (url,) = json.loads(process.line("started"))["ports"]
    shop.ok("enqueue", "send", "to=ann", "--id", "a")
    until(lambda: Scrape(get(f"{url}/metrics").body).value("holdfast_jobs_completed_total", queue="mail"))
    assert get(f"{url}/ready").code == 200
    process.signal(signal.SIGTERM)
    assert process.end()[0] == 0


def test_several_processes_have_one_port_that_speaks_for_all(shop: Shop, start: Start) -> None:
    port = servers.free_port()
    process = start("worker", "--processes", "2", "--metrics-port", str(port))
    url = f"http://127.0.0.1:{port}"
    until(lambda: _code(f"{url}/ready") == 200, "all processes are ready")
    assert get(f"{url}/ready").json == {"status": "ok", "reasons": [], "processes": 2}
    assert get(f"{url}/live").code == 200
    found = Scrape(get(f"{url}/metrics").body)
    assert [found.value("holdfast_worker_info", process=number) for number in ("1", "2")] == [1, 1]
    assert get(f"{url}/metrics", Accept="application/openmetrics-text").body.endswith("# EOF\n")
    assert Scrape(get(f"{url}/metrics/store").body).value("holdfast_store_workers") == 2
    child = shop.json("workers")["workers"][0]["pid"]
    os.kill(child, signal.SIGSTOP)
    try:
        until(lambda: _code(f"{url}/ready") == 503)
        (reason,) = get(f"{url}/ready").json["reasons"]
        assert "it does not answer" in reason
    finally:
        os.kill(child, signal.SIGCONT)
    until(lambda: _code(f"{url}/ready") == 200)
    process.signal(signal.SIGTERM)
    assert process.end()[0] == 0


def _code(url: str) -> int:
    try:
        return get(url).code
    except OSError:
        return 0  # not yet


# --- systemd


class Manager:
    """A service manager's end of the socket."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, watchdog_usec: int) -> None:
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._line.bind(str(folder / "notify"))
        self._line.settimeout(20)
        monkeypatch.setenv("NOTIFY_SOCKET", str(folder / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", str(watchdog_usec))

    def heard(self, word: str) -> list[str]:
        """Return the lines of the next message that has this one."""
        while word not in (lines := self._line.recv(4096).decode().split("\n")):
            assert lines == ["WATCHDOG=1"]
        return lines

    def close(self) -> None:
        self._line.close()


@pytest.mark.parametrize("more", [[], ["--processes", "2"]], ids=["one", "several"])
def test_systemd_hears_of_a_worker(
    shop: Shop, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str]
) -> None:
    with closing(Manager(tmp_path, monkeypatch, 100_000)) as manager:
        process = start("worker", "--queues", "mail", *more)
        assert manager.heard("READY=1")[1].endswith("mail")
        manager.heard("WATCHDOG=1")
        manager.heard("WATCHDOG=1")
        process.signal(signal.SIGTERM)
        manager.heard("STOPPING=1")
        assert process.end()[0] == 0
