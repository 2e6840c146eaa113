"""A process that only enqueues loads nothing that runs jobs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PRODUCER = """
import sys
from holdfast import Holdfast, Retry

app = Holdfast({url!r}, retry=Retry(failures=5))


@app.task(queue="mail", executor="process", timeout=30)
def send(to: str) -> str: ...


if {enqueue}:
    with app.sync:
        app.sync(send.enqueue("ann"))
        app.sync(send.options(delay=60).enqueue_many(send.args(name) for name in ("bea", "cid")))
        assert len(app.sync(app.jobs()).jobs) == 3
heavy = [name for name in sys.modules if name.startswith(("holdfast.worker", "holdfast.executor", "multiprocessing"))]
assert not heavy, heavy
"""


HEAVY = {
    "click", "concurrent.futures.process", "email", "http", "importlib.metadata", "jinja2", "multiprocessing",
    "opentelemetry", "pandas", "psycopg", "pyarrow", "pydantic", "pyspark", "redis", "rich", "sqlite3", "starlette",
    "unittest", "uvicorn", "uvloop", "xml",
}  # fmt: skip
OURS = ("cli", "contrib", "demo", "executor", "spark", "store.postgres", "store.redis", "store.sqlite", "supervisor")
OURS += ("testing", "web", "worker")


def test_the_import_of_the_app_loads_nothing_that_it_does_not_need() -> None:
    code = "import sys; from holdfast import Holdfast; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    heavy = HEAVY | {f"holdfast.{name}" for name in OURS}
    assert {name for name in heavy if name in done.stdout.split()} == set()


@pytest.mark.parametrize(
    "url", ["sqlite:///{folder}/jobs.db", "memory://", "redis://nowhere", "postgresql://nowhere/x"]
)
def test_a_process_that_only_enqueues_imports_no_worker_and_no_executor(url: str, tmp_path: Path) -> None:
    code = PRODUCER.format(url=url.format(folder=tmp_path), enqueue="nowhere" not in url)
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
