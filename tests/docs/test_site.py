"""The site of the docs: every page is in its navigation, every diagram is drawn, and it builds without a warning."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from blocks import DOCS, ROOT

sys.path.insert(0, str(DOCS / "tools"))

import diagrams
import llms
from nav import Entry, Section, nav, site_map

FETCHED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']?(?:https?:)?//|<link\b(?![^>]*canonical)[^>]*href=[\"']?https?://"
)
"""What a browser would ask of another host by itself."""


def test_every_page_is_in_the_navigation_once() -> None:
    paths = [(DOCS / each.path).resolve() for each in site_map() if isinstance(each, Entry)]
    pages = {page.resolve() for page in DOCS.rglob("*.md")} - {DOCS / "index.md"}
    assert sorted(str(page.relative_to(ROOT)) for page in pages - set(paths)) == []
    assert sorted(str(path) for path in set(paths) if paths.count(path) > 1) == []
    assert [str(path) for path in paths if not path.exists()] == []


def test_a_section_holds_what_stands_below_its_heading() -> None:
    one = "# Top\n\n- [Not yet](no.md)\n\n## One\n\n- [A](a.md): of a\n"
    pages = site_map(f"{one}\n### Inner\n\n1. [B](b.md),\n   [C](c.md)\n\n## Empty\n")
    assert pages == [
        Section("One", 2), Entry("A", "a.md", "of a"), Section("Inner", 3), Entry("B", "b.md", ""),
        Entry("C", "c.md", ""), Section("Empty", 2),
    ]  # fmt: skip
    inner = {"Inner": [{"B": "b.md"}, {"C": "moved.md"}]}
    assert nav(pages, {"c.md": "moved.md"}) == [{"Home": "index.md"}, {"One": [{"A": "a.md"}, inner]}]


def test_llms_txt_is_made_from_the_index() -> None:
    assert (DOCS / "llms.txt").read_text() == llms.llms_txt(), "run: python docs/tools/llms.py"


def test_every_diagram_is_drawn() -> None:
    wanted = {diagrams.picture(text, shade) for text in diagrams.texts() for shade in diagrams.THEMES}
    assert wanted == set(diagrams.PICTURES.glob("*.svg")), "run: python docs/tools/diagrams.py"


@pytest.mark.timeout(240)
def test_the_site_builds_without_a_warning_and_asks_no_other_host(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr  # `--quiet` would hide them, and let --strict pass
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 80
    assert [str(page) for page in pages if FETCHED.search(page.read_text())] == []
    assert "at least once" in (tmp_path / "llms-full.txt").read_text().lower()
    assert (tmp_path / "search" / "search_index.json").exists()
