"""Files that pages show whole: a page has `<!-- file: path -->`, and this puts the file's text into the block below it.

python docs/tools/included.py    writes all of them (`make docs`); a test compares them with the files
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from nav import DOCS, ROOT

LANGUAGES = {".yaml": "yaml", ".service": "ini", ".py": "python", ".txt": "text"}
_PART = re.compile(r"(<!-- file: (\S+) -->\n(?:<!-- not run: .*? -->\n)?)(?:```.*?^```\n)?", re.MULTILINE | re.DOTALL)


def shown(page: str) -> str:
    """Return a page with its files as they are now."""

    def put(part: re.Match[str]) -> str:
        path = ROOT / part[2]
        language = LANGUAGES.get(path.suffix, "dockerfile")
        return f"{part[1]}```{language}\n{path.read_text('utf-8').strip()}\n```\n"

    return _PART.sub(put, page)


def pages() -> list[Path]:
    """Return the pages that show files."""
    return [page for page in sorted(DOCS.rglob("*.md")) if "<!-- file: " in page.read_text("utf-8")]


if __name__ == "__main__":
    for page in pages():
        page.write_text(shown(page.read_text("utf-8")), "utf-8")
