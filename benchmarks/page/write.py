"""Write the page, its pictures and its figures into the docs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.compare.environment import ROOT
from benchmarks.page.pictures import pictures
from benchmarks.page.words import page

DOCS = ROOT / "docs"


def files(figures: Mapping[str, Any]) -> dict[str, str]:
    """What the docs hold, by path: the page and its pictures, made of the figures alone."""
    drawn = {f"images/benchmarks/{each.name}.svg": each.svg for each in pictures(figures)}
    return {"benchmarks.md": page(figures), **drawn}


def write(figures: Mapping[str, Any], docs: Path = DOCS) -> None:
    """The page is there, with its figures, and no picture of an earlier one."""
    folder = docs / "images" / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    (folder / "figures.json").write_text(json.dumps(figures, indent=1) + "\n")
    for path, text in files(figures).items():
        (docs / path).write_text(text)


def read(docs: Path = DOCS) -> dict[str, Any]:
    """The figures that the page was made of."""
    found: dict[str, Any] = json.loads((docs / "images" / "benchmarks" / "figures.json").read_text())
    return found
