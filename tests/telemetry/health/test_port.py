"""The port: as much HTTP as probes need, and nothing that a caller could hold up or fill."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from probe import get

from holdfast import ConfigError, Holdfast
from holdfast.telemetry.health import http
from holdfast.telemetry.health.http import HttpRequest, HttpResponse
from holdfast.telemetry.health.port import Address, Port
from holdfast.telemetry.health.ports import port_options


async def _hello(request: HttpRequest) -> HttpResponse:
    return HttpResponse(request.headers.get("accept", "").encode())


async def _broken(request: HttpRequest) -> HttpResponse:
    raise ValueError("no")


@pytest.fixture
def port() -> Iterator[Port]:
    """A port that answers at two paths."""
    with Port([(Address("port"), {"/hello": _hello, "/broken": _broken})]) as port:
        yield port


def raw(port: Port, data: bytes) -> bytes:
    """Return all that is answered to these bytes."""
    host, _, number = port.urls[0].removeprefix("http://").partition(":")
    with socket.create_connection((host, int(number)), timeout=20) as line:
        line.sendall(data)
        answer = b""
        while more := line.recv(65536):
            answer += more
        return answer


def test_get_and_head_are_answered(port: Port) -> None:
    url = f"{port.urls[0]}/hello?with=query"
    reply = get(url, Accept="text/x")
    assert (reply.code, reply.body, reply.headers["Content-Length"]) == (200, "text/x", "6")
    head = get(url, "HEAD", Accept="text/x")
    assert (head.code, head.body, head.headers["Content-Length"]) == (200, "", "6")


@pytest.mark.parametrize(
    ("path", "method", "code"), [("/nope", "GET", 404), ("/hello", "POST", 405), ("/hello", "DELETE", 405)]
)
def test_what_there_is_not_is_refused(port: Port, path: str, method: str, code: int) -> None:
    reply = get(port.urls[0] + path, method)
    assert reply.code == code
    assert reply.headers.get("Allow") == ("GET, HEAD" if code == 405 else None)


def test_an_answer_that_fails_is_an_error_and_the_port_goes_on(port: Port, caplog: pytest.LogCaptureFixture) -> None:
    assert get(f"{port.urls[0]}/broken").code == 500
    assert "port_failed: /broken could not be answered" in caplog.text
    assert get(f"{port.urls[0]}/hello").code == 200


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET /hello SMTP/1\r\n\r\n", 400),
        (b"\x00\xff\r\n\r\n", 400),
        (b"GET /hello HTTP/1.1\r\nX: " + b"x" * http.MOST_HEAD + b"\r\n\r\n", 431),
    ],
)
def test_a_request_that_is_none_is_refused(port: Port, sent: bytes, code: int) -> None:
    assert raw(port, sent).startswith(f"HTTP/1.1 {code} ".encode())


def test_a_caller_that_sends_nothing_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "PATIENCE", 0.05)
    with Port([(Address("port"), {"/hello": _hello})]) as port:
        assert raw(port, b"GET /hel").startswith(b"HTTP/1.1 408 ")


def test_a_port_that_is_taken_is_a_clear_error(port: Port) -> None:
    number = int(port.urls[0].rpartition(":")[2])
    with pytest.raises(ConfigError, match=rf"metrics_port={number}: another program listens on 127.0.0.1:{number}"):
        Port([(Address("metrics_port", number), {})]).open()


def test_a_host_that_is_not_here_is_a_clear_error() -> None:
    with pytest.raises(ConfigError, match=r"metrics_port=0: cannot listen on 192\.0\.2\.1:0: "):
        Port([(Address("metrics_port", 0, "192.0.2.1"), {})]).open()


def test_a_path_is_a_unix_socket_and_one_that_a_dead_process_left_is_taken_over(tmp_path: Path) -> None:
    path = str(tmp_path / "port")
    for _ in range(2):
        with Port([(Address("metrics_port", path=path), {"/hello": _hello})]) as port:
            assert port.urls == [f"unix:{path}"]
            with socket.socket(socket.AF_UNIX) as line:
                line.connect(path)
                line.sendall(b"GET /hello HTTP/1.1\r\n\r\n")
                assert line.recv(100).startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize("wrong", [-1, 65536, 1.5, "9100", True, b"x"])
def test_what_is_no_port_is_refused(app: Holdfast, wrong: object) -> None:
    app.queue("mail")
    for option in ("metrics_port", "health_port"):
        with pytest.raises(ConfigError, match=f"{option}=.*: a port from 1 to 65535, 0 for one that is free"):
            app.worker(**{option: wrong})  # type: ignore[arg-type]


def test_one_port_has_both_unless_two_are_given() -> None:
    def served(metrics: int | None, health: int | None) -> list[tuple[int, bool, bool]]:
        return [(each.port, *has) for each, *has in port_options(metrics, health, "::1").addresses()]

    assert served(None, None) == []
    assert served(1, None) == served(1, 1) == served(None, 1) == [(1, True, True)]
    assert served(1, 2) == [(1, True, False), (2, False, True)]
