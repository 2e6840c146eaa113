"""The example applications pass their own tests, with the real frameworks, and work as their first lines say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from servers import free_port
from support import until

EXAMPLES = Path(__file__).parents[2] / "examples"
QUIET = ["-W", "error", "-W", "ignore:Using `httpx`", "-q", "-p", "no:cacheprovider", "-c", os.devnull]


@pytest.mark.parametrize("name", ["fastapi_shop", "flask_shop"])
def test_the_tests_of_an_example(name: str) -> None:
    command = [sys.executable, "-m", "pytest", *QUIET, "--rootdir", ".", "."]
    done = subprocess.run(command, cwd=EXAMPLES / name, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_fastapi_shop_with_a_worker_in_the_process_of_uvicorn(tmp_path: Path) -> None:
    port = free_port()
    environment = {**os.environ, "SHOP_URL": f"sqlite:///{tmp_path}/shop.db", "SHOP_WORKER": "1"}
    command = [sys.executable, "-m", "uvicorn", "main:api", "--port", str(port), "--log-level", "warning"]
    server = subprocess.Popen(command, cwd=EXAMPLES / "fastapi_shop", env=environment)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
            until(lambda: _answers(client))
            order = {"number": 7, "item": "lamp", "to": "ann@example.com"}
            assert client.post("/quotes", json=order, timeout=30).json() == {"number": 7, "cents": 400}
            assert client.post("/orders", json=order).status_code == 202
            until(lambda: client.get("/orders/7").json()["state"] == "completed")
    finally:
        server.terminate()
        assert server.wait(30) in (0, -15)


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/backlog").status_code == 200
    except httpx.TransportError:
        return False


def test_the_flask_shop_with_worker_processes(tmp_path: Path) -> None:
    environment = {**os.environ, "SHOP_URL": f"sqlite:///{tmp_path}/shop.db"}
    folder = EXAMPLES / "flask_shop"
    command = [sys.executable, "-m", "flask", "--app", "shop", "holdfast"]

    def flask(*words: str) -> str:
        done = subprocess.run([*command, *words], cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    flask("enqueue", "confirm", "number=7", "to=ann@example.com", "--id", "7")
    assert "1 completed" in flask("worker", "--burst", "--processes", "2")
    assert "shop@example.com -> ann@example.com" in flask("jobs", "show", "mail", "7")
