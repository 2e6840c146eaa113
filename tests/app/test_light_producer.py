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


@pytest.mark.parametrize(
    "url", ["sqlite:///{folder}/jobs.db", "memory://", "redis://nowhere", "postgresql://nowhere/x"]
)
def test_a_process_that_only_enqueues_imports_no_worker_and_no_executor(url: str, tmp_path: Path) -> None:
    code = PRODUCER.format(url=url.format(folder=tmp_path), enqueue="nowhere" not in url)
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
