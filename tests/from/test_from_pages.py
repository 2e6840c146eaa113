"""Every row of the pages in docs/from names the tests that prove it, and every such test belongs to a row."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

HERE = Path(__file__).parent
PAGES = sorted((HERE.parents[1] / "docs" / "from").glob("*.md"))
SYSTEMS = [page for page in PAGES if page.name != "index.md"]
NAME = re.compile(r"`(test_\w+)`")


class Row(NamedTuple):
    """A row of a table, and the tests that its last column names."""

    where: str
    cells: tuple[str, ...]

    @property
    def tests(self) -> list[str]:
        return NAME.findall(self.cells[-1])


def rows(page: Path) -> Iterator[Row]:
    """Yield the rows of a page's tables, without their headings."""
    lines = re.sub(r"^```.*?^```$", lambda block: "\n" * block[0].count("\n"), page.read_text(), flags=re.M | re.S)
    numbered = list(enumerate(lines.splitlines(), 1))
    headings = {number - 1 for number, line in numbered if re.fullmatch(r"\|( *:?-+:? *\|)+", line)}
    for number, line in numbered:
        if line.startswith("|") and number not in headings and number - 1 not in headings:
            yield Row(f"{page.name}:{number}", tuple(cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]))


def proofs() -> dict[str, str]:
    """Return every test of this folder but those of this file: its name, and the file."""
    found: dict[str, str] = {}
    for file in HERE.glob("test_*.py"):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                assert node.name not in found, f"{node.name} is in {file.name} and in {found[node.name]}"
                found[node.name] = file.name
    return {name: file for name, file in found.items() if file != Path(__file__).name}


ROWS = [row for page in PAGES for row in rows(page)]


@pytest.mark.parametrize("page", SYSTEMS, ids=lambda page: page.stem)
def test_a_page_begins_with_traps_and_has_words_defaults_and_calls(page: Path) -> None:
    headings = re.findall(r"^## (\w+)", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S), re.M)
    assert headings[:4] == ["Traps", "Words", "Defaults", "Calls"]
    assert "# example:" in page.read_text()


@pytest.mark.parametrize("page", SYSTEMS, ids=lambda page: page.stem)
def test_a_page_has_enough_rows_and_cells(page: Path) -> None:
    assert len(list(rows(page))) > 20
    assert [row.where for row in rows(page) if not all((row.cells[0], row.cells[1], row.cells[-1]))] == []


def test_every_row_names_a_test() -> None:
    assert [row.where for row in ROWS if not row.tests] == []


def test_every_test_that_a_row_names_is_there() -> None:
    known = proofs()
    assert [(row.where, name) for row in ROWS for name in row.tests if name not in known] == []


def test_every_test_of_this_folder_belongs_to_a_row() -> None:
    named = {name for row in ROWS for name in row.tests}
    assert [f"{file}: {name}" for name, file in proofs().items() if name not in named] == []
