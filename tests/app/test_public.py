"""The public names: imported when they are asked for, as type checkers see them."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast


def test_the_names_are_found_where_type_checkers_find_them() -> None:
    (block,) = [node for node in ast.parse(Path(holdfast.__file__).read_text()).body if isinstance(node, ast.If)][:1]
    imported = {
        alias.name: f".{node.module}" for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert imported == holdfast._HOMES
    assert sorted(imported) == sorted(holdfast.__all__)
    assert all(getattr(holdfast, name) is not None for name in holdfast.__all__)
    assert set(holdfast.__all__) <= set(dir(holdfast))


def test_a_name_that_is_not_there_is_an_error() -> None:
    with pytest.raises(AttributeError, match="module 'holdfast' has no attribute 'Job2'"):
        _ = holdfast.Job2  # type: ignore[attr-defined]


def test_the_import_alone_brings_nothing_with_it() -> None:
    script = "import sys, holdfast; print([name for name in ('asyncio', 'msgspec', 'typing') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, check=True,
                          env={"PYTHONPATH": str(Path(holdfast.__file__).parents[1])})  # fmt: skip
    assert done.stdout == "[]\n"
