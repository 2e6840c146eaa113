"""The code of the docs: every block of a page, and what a test does with it.

A block of Python is a program (it has a part that runs, or begins with `# example: name.py`), or a piece of one. The
pieces of a page stand in the program around them, `around/guide-sync.py` for docs/guide/sync.md, where it says
`# piece 1`. Where a page shows files and a test of them (`# test_shop.py`), that test runs. A piece that cannot run
here has a comment above it that tells why: `<!-- not run: it needs ... -->`. The other side of a migration guide says
whose it is, `<!-- theirs: celery -->`: `make peers` runs it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
AROUND = Path(__file__).parent / "around"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
_BLOCK = re.compile(
    r"^(?:<!-- (not run|theirs): (.+) -->\n)?( *)```(\w*)[^\n]*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL
)
_PIECE = re.compile(r"^( *)# piece (\d+)\n", re.MULTILINE)


class Block(NamedTuple):
    """A block of code in a page."""

    page: Path
    line: int
    language: str
    code: str
    not_run: str
    theirs: str

    @property
    def where(self) -> str:
        """The page and the line, for messages and the names of tests."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def name(self) -> str:
        """The file that it would be: `# example: name.py`."""
        named = re.match(r"# example: (\w+)\.py", self.code)
        return named[1] if named else "example"

    @property
    def file(self) -> str:
        """The name of the file of which it is the text: `# test_shop.py` in its first line; else nothing."""
        named = re.match(r"# (\w+\.py)\n", self.code)
        return named[1] if named else ""

    @property
    def complete(self) -> bool:
        """True for a program, False for a piece of one."""
        starts = re.search(r"^(if __name__ == |asyncio\.run\()", self.code, re.MULTILINE)
        if self.file.startswith("test_"):
            return False  # it runs with the files that it tests
        return self.code.startswith("# example:") or starts is not None


def blocks(language: str) -> list[Block]:
    """Return every block of a language, page by page."""
    return [block for page in PAGES for block in _of(page) if block.language == language]


def _of(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        mark, said, indent, language, code = match.groups()
        line = text.count("\n", 0, match.start(3)) + 1
        code = re.sub(rf"^{indent}", "", code, flags=re.MULTILINE)
        not_run, theirs = (said if mark == kind else "" for kind in ("not run", "theirs"))
        found.append(Block(page, line, language, code, not_run or "", theirs or ""))
    return found


def files() -> dict[Path, list[Block]]:
    """Return the files of each page that shows files with their tests."""
    named = [block for block in blocks("python") if block.file]
    tested = {block.page for block in named if block.file.startswith("test_")}
    return {page: [block for block in named if block.page == page] for page in sorted(tested)}


def pieces() -> dict[Path, list[Block]]:
    """Return the pieces of each page that are to run inside the program around them."""
    found: dict[Path, list[Block]] = {}
    tested = [block for inside in files().values() for block in inside]
    for block in blocks("python"):
        if not (block.complete or block.not_run or block.theirs or block in tested):
            found.setdefault(block.page, []).append(block)
    return found


def around(page: Path) -> Path:
    """Return the file of the program around the pieces of a page."""
    return AROUND / ("-".join(page.relative_to(ROOT).with_suffix("").parts).removeprefix("docs-") + ".py")


def numbers(program: str) -> list[int]:
    """Return the numbers of the pieces for which a program has a place."""
    return [int(number) for _, number in _PIECE.findall(program)]


def filled(program: str, inside: list[Block]) -> str:
    """Return a program with the pieces in their places."""

    def put(place: re.Match[str]) -> str:
        code = inside[int(place[2]) - 1].code
        return re.sub(r"^(?=.)", place[1], code, flags=re.MULTILINE)

    return _PIECE.sub(put, program)
