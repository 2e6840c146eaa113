"""The page of the HTTP API is that of the code."""

from __future__ import annotations

import re
from pathlib import Path

from holdfast.web import problem
from holdfast.web.api.description import reference

ROOT = Path(__file__).parents[2]


def test_the_page_is_made_from_the_endpoints() -> None:
    assert (ROOT / "docs" / "reference" / "http-api.md").read_text() == reference.page(), "run: make docs"


def test_every_problem_is_described() -> None:
    source = "\n".join(path.read_text() for path in (ROOT / "src" / "holdfast" / "web").rglob("*.py"))
    raised = set(re.findall(r'Problem\(\s*[^",]+,\s*"([a-z-]+)"', source))
    known = raised | {kind for _, _, kind in problem.KINDS}
    assert len(raised) > 20
    assert known - set(reference.PROBLEMS) == set()
