"""`holdfast serve`: where it listens, what it refuses, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme
from support import PATIENCE, eventually, run

from holdfast import Holdfast
from holdfast.web.auth.passwords import is_password
from holdfast.web.server import Place, listening

TOKEN = "a token of some length"


def command(*words: str, **environment: str) -> list[str]:
    return [sys.executable, "-m", "holdfast", "serve", *words]


def ended(*words: str, given: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*words),
        input=given,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, **environment},
    )


@contextlib.contextmanager
def served(*words: str, **environment: str) -> Iterator[tuple[dict[str, Any], subprocess.Popen[str]]]:
    """A server runs; yield what it said at its start."""
    process = subprocess.Popen(
        command(*words, "--json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, **environment},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        yield json.loads(line), process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def made(url: str) -> str:
    """The URL of a store that is there."""

    async def make() -> None:
        async with Holdfast(url) as app:
            await app.queue("q").enqueue(1, job_id="one")

    run(make())
    return url


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_it_is_told_to_stop(made: str, number: int) -> None:
    with served("--url", made, "--port", "0") as (said, process):
        assert said["address"].startswith("http://127.0.0.1:")
        assert httpx.get(f"{said['address']}api/v1/queues").json()["queues"][0]["name"] == "q"
        with httpx.stream("GET", f"{said['address']}api/v1/events/stream") as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith("retry")
            process.send_signal(number)
            assert 'data: {"reason":"stopping"}' in list(lines)
        assert process.wait(PATIENCE) == 0
        assert process.communicate()[1] == ""


def test_a_port_that_is_taken_is_one_line(made: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        found = ended("--url", made, "--port", port)
        assert found.returncode == 2
        assert found.stderr.count("\n") == 1
        assert f"port {port} of 127.0.0.1 cannot be had" in found.stderr


def test_other_addresses_need_credentials(made: str, tmp_path: Path) -> None:
    refused = ended("--url", made, "--host", "0.0.0.0", "--port", "0")
    assert (refused.returncode, "--insecure" in refused.stderr) == (2, True)
    with served("--url", made, "--host", "0.0.0.0", "--port", "0", HOLDFAST_TOKEN=TOKEN) as (said, _):
        address = said["address"].replace("0.0.0.0", "127.0.0.1")
        assert httpx.get(f"{address}api/v1/queues").status_code == 401
        answer = httpx.get(f"{address}api/v1/queues", headers={"authorization": f"Bearer {TOKEN}"})
        assert answer.status_code == 200
    with served("--url", made, "--host", "0.0.0.0", "--port", "0", "--insecure") as (said, process):
        address = said["address"].replace("0.0.0.0", "127.0.0.1")
        assert httpx.get(f"{address}api/v1/queues").status_code == 200
        process.terminate()
        assert "anyone who reaches" in process.communicate()[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--url", "sqlite:///none.db"], "there is no store at"),
        (["--port", "70000"], "70000"),
        (["--host", "no.such.host.invalid", "--insecure"], "there is no such address"),
        (["--token", "short"], "at least 16 characters"),
        (["--users", "none"], "cannot be read"),
        (["--token-file", "none"], "cannot be read"),
        (["--secret-file", "none"], "cannot be read"),
        (["--redact", ":x"], "redact ':x'"),
        (["--root-path", "jobs"], "it begins with /"),
        (["--tls-cert", "x"], "go together"),
        (["--tls-cert", "none", "--tls-key", "none"], "--tls-cert none"),
    ],
)
def test_what_is_wrong_is_said_on_one_line(made: str, words: list[str], said: str) -> None:
    given = words if "--url" in words else ["--url", made, "--port", "0", *words]
    found = ended(*given)
    assert found.returncode == 2, found.stderr
    assert found.stderr.count("\n") == 1, found.stderr
    assert said in found.stderr


def test_a_password_is_hashed(made: str, tmp_path: Path) -> None:
    found = ended("--hash-password", given="correct horse\n")
    assert is_password("correct horse", found.stdout.strip())
    (tmp_path / "users").write_text(f"ann:operator:{found.stdout.strip()}\n")
    with served("--url", made, "--port", "0", "--users", str(tmp_path / "users")) as (said, _):
        login = httpx.post(f"{said['address']}login", data={"name": "ann", "secret": "correct horse"})
        assert login.status_code == 303


def test_it_serves_below_a_path_and_with_tls(made: str, tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    for part in certificate.cert_chain_pems:
        part.write_to_path(tmp_path / "cert.pem", append=True)
    words = ["--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem"), "--root-path", "/jobs"]
    with served("--url", made, "--port", "0", "--host", "localhost", "--read-only", *words) as (said, _):
        assert said["address"].endswith("/jobs/")
        proxied = said["address"].removesuffix("/jobs/")  # as a proxy that takes the path away would ask
        context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        with httpx.Client(verify=context, base_url=proxied) as client:
            assert client.get("/api/v1").json()["links"]["jobs"] == "/jobs/api/v1/jobs"
            assert 'href="/jobs/static/' in client.get("/", headers={"accept": "text/html"}).text
            refused = client.post("/api/v1/jobs", json={"queue": "q", "payload": 1})
            assert refused.json()["type"].endswith(":read-only")


async def test_small_answers_are_sent_at_once(made: str) -> None:
    heard: list[int] = []
    listener = listening(Place(port=0))

    class Watching(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            heard.append(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    server = await asyncio.get_running_loop().create_server(Watching, sock=listener)
    async with server:
        _, writer = await asyncio.open_connection(*listener.getsockname()[:2])
        await eventually(lambda: heard)
        writer.close()
        await writer.wait_closed()
    assert heard[0] == 1
