"""What the site adds to the docs: navigation, pages that stand beside the code, the API, diagrams, llms-full.txt."""

from __future__ import annotations

import re
import sys
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import api_pages
import diagrams
import llms
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from nav import DOCS, ROOT, nav, site_map

OUTSIDE = {
    f"../{path.name}": f"project/{path.stem.lower()}.md" for path in ROOT.glob("*.md") if path.name != "README.md"
}
"""Pages that stand beside the code, and where the site has them."""
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_PROOF = re.compile(r"\| ((?:`test_\w+`(?:, )?)+) \|$", re.MULTILINE)
"""The last cell of a row in docs/from: the tests that prove it."""
_CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Take the navigation from the index."""
    config.nav = [*nav(site_map(), OUTSIDE), api_pages.NAV]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that no file of the docs has: those beside the code, and the API."""
    for source, target in OUTSIDE.items():
        files.append(File.generated(config, target, content=(DOCS / source).read_text("utf-8")))
    for target, text in api_pages.pages().items():
        files.append(File.generated(config, target, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links that leave the docs to where they lead on the site, and show diagrams as pictures."""
    path = page.file.src_uri
    place = next((source for source, target in OUTSIDE.items() if target == path), path)
    if path.startswith("from/"):
        markdown = _PROOF.sub(_short_proof, markdown)
    parts = _CODE.split(markdown)
    parts[::2] = [_LINK.sub(lambda link: _moved(link, place, path, config.repo_url), part) for part in parts[::2]]
    return diagrams.as_pictures("".join(parts), relpath("images/diagrams", str(PurePosixPath(path).parent)))


def _short_proof(cell: re.Match[str]) -> str:
    """Return the cell as a mark that tells the tests when it is pointed at: their names are as wide as the rest."""
    return f'| <abbr title="{cell[1].replace("`", "")}">tested</abbr> |'


def _moved(link: re.Match[str], place: str, path: str, repository: str | None) -> str:
    """Return a link as the site has it. `place` is where its page stands beside the docs, `path` where on the site."""
    target, _, anchor = link[3].partition("#")
    if not target or re.match(r"\w+:", target):
        return link[0]
    wanted = normpath(str(PurePosixPath(place).parent / target))
    if place == path and not wanted.startswith("../"):
        return link[0]
    if wanted in OUTSIDE or not wanted.startswith("../"):
        there = relpath(OUTSIDE.get(wanted, wanted), str(PurePosixPath(path).parent))
        return f"{link[1]}[{link[2]}]({there}{'#' + anchor if anchor else ''})"
    if wanted.startswith("../docs/"):
        there = relpath(wanted.removeprefix("../docs/") or "index.md", str(PurePosixPath(path).parent))
        return f"{link[1]}[{link[2]}]({there}{'#' + anchor if anchor else ''})"
    inside = wanted.removeprefix("../")
    return f"[{link[2]}]({repository.rstrip('/')}/blob/main/{inside})" if repository else link[2]


def on_post_build(config: MkDocsConfig, **_: Any) -> None:
    """Write what language models read: every page as Markdown, and all of them in one file."""
    llms.write_site(Path(config.site_dir))
