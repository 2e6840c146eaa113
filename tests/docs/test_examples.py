"""Every example runs, and says what it should."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from lean_spark import lean_environment

ROOT = Path(__file__).parents[2]
SAID = {
    "quickstart": ["Receipt(to='ann@example.com', template='welcome')", "queued mail-1 scheduled", "completed=2"],
    "plain_queue": ["queued duplicate", "10 more", "11 completed", "{'width': 1000, 'height': 750}"],
    "sync_flask_style": [
        "({'job': 'welcome-ann@example.com', 'status': 'queued'}, 202)",
        "'status': 'duplicate'",
        "({'cents': 750}, 200)",
        "the moon is not for sale",
        "welcomed ann@example.com",
        "there is no job mail/welcome-nobody",
    ],
    "middleware_and_hooks": [
        "fetch attempt 2",
        "retry: default/page-1, now scheduled",
        "index.html after ConnectionError, trace-page-1",
        "attempt 2, 0 failures",
        "fail: default/lost, now failed",
        "the worker stopped",
    ],
    "injection": [
        "['queued', 'queued', 'queued']",
        "threads: ['holdfast-sync']",
        "completed 3",
        "acme has booked 70",
        "the folder is closed",
    ],
    "dataframe_api": [
        "killed the driver: half of 800 rows are done, and the queue goes on",
        "completed 799\nfailed 1",
        "{'street': '7 Main Street', 'city': 'city 7', 'lat': 7.0}",
        "no such street: 13 Main Street",
        "800 calls for 800 rows",
    ],
}
OF_JOBS = re.compile(r"\bjob_(failed|retried): |^  ")
"""Lines of the log, on stderr: what became of a job, with its traceback indented below."""
ARGUMENTS = {"dataframe_api": ["--rows", "800", "--rate", "200"]}


def test_every_example_is_tested() -> None:
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} == SAID.keys()


@pytest.mark.timeout(330)
@pytest.mark.parametrize("name", SAID)
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / f"{name}.py"), *ARGUMENTS.get(name, ())]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, env=lean_environment())
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if not OF_JOBS.search(line)] == []
    for said in SAID[name]:
        assert said in done.stdout


README = {
    0: ["Receipt(to='ann@example.com', template='welcome')"],
    1: ["cat.jpg: 64 x 64", "queued welcome-ann", "sent to ann@example.com at attempt 2"],
}


@pytest.mark.parametrize("number", README)
def test_the_code_of_the_readme_runs(number: int, tmp_path: Path) -> None:
    block = (ROOT / "README.md").read_text().split("```python\n")[number + 1].split("```")[0]
    (tmp_path / "shop.py").write_text(block)
    worker = subprocess.Popen([sys.executable, "-m", "holdfast", "worker", "shop:app"], cwd=tmp_path)
    try:
        command = [sys.executable, "-W", "error", "shop.py"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    finally:
        worker.terminate()
        assert worker.wait(60) == 0
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == README[number]
