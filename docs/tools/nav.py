"""The map of the docs, read from docs/index.md, which links every page: the site's navigation and llms.txt follow it.

A section is a heading, and each list entry below it a page: `- [Title](path.md): what it is about`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
_HEADING = re.compile(r"^(##+) (.+)$")
_ENTRY = re.compile(r"^(?:[-*]|\d+\.) .*\]\(")
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s]+\.md)\)(?:: (.*))?")


class Section(NamedTuple):
    """A heading of the map, and how deep it stands: 2 or 3."""

    title: str
    depth: int


class Entry(NamedTuple):
    """A page of the map; its path is relative to the folder of the docs."""

    title: str
    path: str
    about: str


def site_map(index: str | None = None) -> list[Section | Entry]:
    """Return the sections and pages of the map, in their order."""
    found: list[Section | Entry] = []
    for line in _whole_entries(index if index is not None else (DOCS / "index.md").read_text("utf-8")):
        heading = _HEADING.match(line)
        if heading:
            found.append(Section(heading[2], len(heading[1])))
        elif found and _ENTRY.match(line):  # what stands before the first section is prose
            found += [Entry(_plain(title), path, about or "") for title, path, about in _LINK.findall(line)]
    return found


def _whole_entries(text: str) -> list[str]:
    """Return the lines of a page outside its code, each entry of a list with the lines that go on with it."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"\n {2,}(?=\S)", " ", text).splitlines()


def _plain(title: str) -> str:
    return title.replace("`", "")


def nav(pages: list[Section | Entry], site_path: dict[str, str]) -> list[object]:
    """Return the navigation as mkdocs.yml would spell it; sections without a page are left out."""
    top: list[object] = [{"Home": "index.md"}]
    levels: list[list[object]] = [top]
    for each in pages:
        if isinstance(each, Section):
            del levels[each.depth - 1 :]
            inside: list[object] = []
            levels[-1].append({each.title: inside})
            levels.append(inside)
        else:
            levels[-1].append({each.title: site_path.get(each.path, each.path)})
    return [each for each in top if each != {} and all(each.values())]  # type: ignore[attr-defined]
