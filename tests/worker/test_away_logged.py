"""A store that is away for a moment, or hangs: the log says so, and says when it is back."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator

import pytest
import servers
from support import eventually, working

from holdfast import Holdfast
from holdfast.telemetry import observed_store

Server = servers.RedisServer | servers.PostgresServer


@pytest.fixture(params=["redis", "postgres"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server of the test's own."""
    binary = servers.valkey_binary() or servers.redis_binary()
    assert binary is not None
    made = servers.RedisServer(binary, "--appendonly", "yes") if request.param == "redis" else servers.PostgresServer()
    if isinstance(made, servers.PostgresServer):
        made.start()
    yield made
    made.close()


def url_of(server: Server) -> str:
    return server.url if isinstance(server, servers.RedisServer) else server.url()


def told(caplog: pytest.LogCaptureFixture, event: str) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.getMessage().startswith(f"{event}: ")]


async def test_an_idle_worker_tells_that_its_store_was_away_and_is_back(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    app = Holdfast(url_of(server))

    @app.task()
    async def echo(text: str) -> str:
        return text

    async with working(app):
        assert await echo.call("before") == "before"
        await asyncio.to_thread(server.stop)
        await eventually(lambda: told(caplog, "listener_away"), "the loss is told")
        await asyncio.to_thread(server.start)
        await eventually(lambda: told(caplog, "listener_back"), "the return is told")
        assert await echo.call("after") == "after"
    assert " is back: " in told(caplog, "listener_away")[0]
    assert " arrive again after " in told(caplog, "listener_back")[0]


async def test_a_store_that_hung_for_a_while_is_told_of(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observed_store, "SLOW", 0.2)
    binary = servers.valkey_binary() or servers.redis_binary()
    assert binary is not None
    server = servers.RedisServer(binary)
    app = Holdfast(server.url)

    @app.task()
    async def echo() -> None: ...

    async with working(app, poll=0.05):
        await echo.call()
        assert server.process is not None
        server.process.send_signal(signal.SIGSTOP)
        asyncio.get_running_loop().call_later(0.5, server.process.send_signal, signal.SIGCONT)
        await eventually(lambda: told(caplog, "store_slow"), "the wait is told")
    server.close()
    assert "was answered after 0." in told(caplog, "store_slow")[0]
    assert "the store hung or was away" in told(caplog, "store_slow")[0]
