"""Bounds: one spelling, and how Lua and SQL get them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import holdfast
from holdfast.core import bound


def test_every_bound_is_a_number_by_its_name() -> None:
    bounds = bound.injected()
    assert bounds["MOST_PROMOTED"] == bound.MOST_PROMOTED
    assert all(type(value) is int for value in bounds.values())


def test_a_text_gets_the_number_for_a_name() -> None:
    assert bound.filled("LIMIT @MOST_WOKEN FOR UPDATE") == f"LIMIT {bound.MOST_WOKEN} FOR UPDATE"


def test_a_name_that_is_no_bound_is_refused() -> None:
    with pytest.raises(KeyError, match="MOST_UNKNOWN"):
        bound.filled("LIMIT @MOST_UNKNOWN")


def test_every_bound_says_what_it_bounds() -> None:
    source = Path(bound.__file__).read_text("utf-8")
    for name in bound.injected():
        assert re.search(rf'^{name} = .*\n"""\S', source, re.MULTILINE), f"{name} has no line that says what it bounds"


def test_no_python_file_gives_a_bound_a_number_again() -> None:
    names = "|".join(bound.injected())
    again = re.compile(rf"^_?(?:{names})\b[^=\n]*= *-?[0-9]", re.MULTILINE)
    root = Path(holdfast.__file__).parent
    others = [path for path in root.rglob("*.py") if path.name != "bound.py"]
    assert [str(path) for path in others if again.search(path.read_text("utf-8"))] == []
