"""The architecture page shows the house as it is: its layers, its packages, and the way of a real call."""

from __future__ import annotations

import re
from pathlib import Path

import architecture
import pytest
import trace_call

REMAKE = "run: make docs"


def test_the_layers_are_those_that_the_linter_checks() -> None:
    assert architecture.part("layers") == architecture.layers(), REMAKE


def test_the_packages_import_what_the_page_says() -> None:
    assert architecture.part("packages") == architecture.packages(), REMAKE


def test_the_methods_of_a_store_are_those_of_the_contract() -> None:
    assert architecture.part("methods", architecture.STORE_PAGE) == architecture.methods(), REMAKE


@pytest.mark.parametrize("name", ["SQLite", "Redis", "PostgreSQL"])
def test_a_call_passes_the_files_that_the_page_lists(name: str, tmp_path: Path) -> None:
    way = trace_call.trace(dict(trace_call.stores(tmp_path))[name])
    page = set(architecture.listed(name))
    assert way.always - page == set(), f"every call passes these files, and the page lacks them; {REMAKE}"
    assert page - way.ever == set(), f"the page lists these files, and no call passes them; {REMAKE}"


def test_every_file_that_the_guide_for_contributors_names_is_there() -> None:
    text = (architecture.ROOT / "CONTRIBUTING.md").read_text("utf-8")
    named = set(re.findall(r"`((?:src|tests|docs)/[\w/.-]+)`", text))
    assert sorted(name for name in named if not (architecture.ROOT / name).exists()) == []
    assert len(named) > 30


def test_a_frame_that_waits_for_an_inner_one_is_not_on_the_way(tmp_path: Path) -> None:
    """`Worker.run` waits all the time that a worker runs. Its file counts for other reasons, or not at all."""
    way = trace_call.trace(f"sqlite:///{tmp_path}/jobs.db")
    assert all(not step.function.endswith(("Worker.run", "_run_to_the_end", "_run_once")) for step in way.steps)
