"""Rules of the house that no linter knows: names that exist once, folders and files that stay small."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
FILES = sorted(SOURCE.rglob("*.py"))
MOST_FILES = 17
"""About fifteen files in a folder, besides its `__init__`."""
LARGER = {"holdfast/core"}
"""Folders that are larger for now. A folder that has become smaller is taken off this list."""


def test_a_class_name_exists_once() -> None:
    names = Counter(
        name for file in FILES for name in re.findall(r"^class ([A-Za-z]\w*)", file.read_text(), re.MULTILINE)
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_a_folder_has_about_fifteen_files() -> None:
    folders = Counter(str(file.parent.relative_to(SOURCE)) for file in FILES if file.name != "__init__.py")
    assert {folder for folder, count in folders.items() if count > MOST_FILES} - LARGER == set()
