"""Executors in processes of their own, as a cluster has them; one is killed on the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("executors_run.py")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a run on two executors printed."""
    folder = tmp_path_factory.mktemp("executors") / "place"
    folder.mkdir()
    command = [sys.executable, str(SCRIPT), str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(SCRIPT.parents[1])}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=400, check=False, cwd=folder, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr[-5000:]
    found: dict[str, Any] = {}
    for line in done.stdout.splitlines():
        found.update(json.loads(line))
    return found


@pytest.mark.timeout(450)
def test_a_worker_that_is_killed_mid_write_enqueues_nothing_twice(told: dict[str, Any]) -> None:
    wrote = told["write"]
    assert wrote["killed"]
    assert wrote["once"]
    assert wrote["rows"] == wrote["enqueued"] == 2000
    assert 100 <= wrote["duplicate"] < 1000, "what was in before the kill was found there"


@pytest.mark.timeout(450)
def test_a_map_survives_the_executor_of_its_worker(told: dict[str, Any]) -> None:
    assert told["map"] == {"right": True, "stalls": 4, "workers": 1}


@pytest.mark.timeout(450)
def test_a_lake_survives_its_executors(told: dict[str, Any]) -> None:
    assert told["lake"] == {"killed": 2, "all": True, "missing": 0, "after": None}
