"""The example's notebook runs, cell by cell, and keeps no outputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast import Event

NOTEBOOK = Path(__file__).parents[3] / "examples" / "lake_report.ipynb"


def test_the_notebook_runs(drawn: tuple[Path, list[Event]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_LAKE", str(drawn[0]))
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    names: dict[str, Any] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None), "a notebook is committed without outputs"
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    names["database"].close()
    completed = sum(event.transition == "complete" for event in drawn[1])
    assert names["busiest"]["completed"].sum() == completed
    assert set(names["backlog"]["queue"]) == {"mail", "payments", "photos"}
    assert len(names["errors"]) == 3
    assert (tmp_path / "report.html").exists()
