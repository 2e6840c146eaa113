"""What language models read of the docs: `llms.txt`, a map of all pages, and `llms-full.txt`, all pages in one file.

python docs/tools/llms.py    writes docs/llms.txt (`make docs`); the site has the other, and each page as Markdown
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from nav import DOCS, Entry, Section, site_map

LEFT_OUT = ("Decisions",)
"""Sections that stand under "Optional": why things are as they are helps few who want to use them."""


def llms_txt() -> str:
    """Return the map of the docs, in the form of llmstxt.org."""
    pages = site_map()
    head = ["# Holdfast", "", f"> {summary()}", ""]
    return "\n".join([*head, *_listed(pages)]).rstrip() + "\n"


def summary() -> str:
    """Return the first paragraph of the index."""
    paragraphs = (DOCS / "index.md").read_text("utf-8").split("\n\n")
    return " ".join(paragraphs[1].split())


def _listed(pages: list[Section | Entry]) -> list[str]:
    lines: list[str] = []
    for each in pages:
        if isinstance(each, Section):
            title = "Optional" if each.title in LEFT_OUT else each.title
            lines += ["", f"{'#' * each.depth} {title}", ""]
        elif not each.path.startswith("../"):
            lines.append(f"- [{each.title}]({each.path})" + (f": {each.about}" if each.about else ""))
    return [line for at, line in enumerate(lines) if line or at]


def full() -> str:
    """Return all pages in one text, in the order of the map."""
    paths = ["index.md", *(each.path for each in site_map() if isinstance(each, Entry))]
    return "\n\n".join(f"<!-- {path} -->\n\n{(DOCS / path).read_text('utf-8').strip()}" for path in paths) + "\n"


def write_site(site: Path) -> None:
    """Put every page as Markdown beside its HTML, and all of them into one file."""
    for page in DOCS.rglob("*.md"):
        target = site / page.relative_to(DOCS)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page.read_text("utf-8"), "utf-8")
    (site / "llms-full.txt").write_text(full(), "utf-8")


if __name__ == "__main__":
    (DOCS / "llms.txt").write_text(llms_txt(), "utf-8")
