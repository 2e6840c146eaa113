"""Diagrams of the docs: Mermaid in the pages, which GitHub draws by itself, and pictures of them for the site.

    python docs/tools/diagrams.py    draws those that have changed, and removes what no page has any more

The site asks no other host for anything, and Mermaid is 3 MB of script: so Chromium draws each diagram here once,
light and dark. A picture is named by the digest of its text, so that a diagram which was changed and not drawn again
is missed.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import subprocess
import sys
import tarfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from nav import DOCS, ROOT

PICTURES = DOCS / "images" / "diagrams"
THEMES = {"light": "neutral", "dark": "dark"}
MERMAID = ROOT / ".bench" / "mermaid"
"""Where the script of Mermaid is unpacked, from npm."""
_BLOCK = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r"^\s*accTitle: (.*)$", re.MULTILINE)
_DRAW = """async ([text, theme]) => {
  const plain = {htmlLabels: false};  // text that a picture can show
  mermaid.initialize({startOnLoad: false, theme, ...plain, flowchart: plain, deterministicIds: true});
  return (await mermaid.render("diagram", text)).svg;
}"""


def texts() -> list[str]:
    """Return the text of every diagram in the docs."""
    return [text for page in sorted(DOCS.rglob("*.md")) for text in _BLOCK.findall(page.read_text("utf-8"))]


def picture(text: str, shade: str) -> Path:
    """Return the file that has the picture of a diagram."""
    return PICTURES / f"{hashlib.sha256(text.encode()).hexdigest()[:12]}-{shade}.svg"


def as_pictures(markdown: str, folder: str) -> str:
    """Return a page with pictures in place of its diagrams."""

    def shown(block: re.Match[str]) -> str:
        title = _TITLE.search(block[1])
        name = title[1] if title else "diagram"
        tags = [
            f"![{name}]({folder}/{picture(block[1], shade).name}){{ .diagram .{shade} loading=lazy }}"
            for shade in THEMES
        ]
        return "\n".join(tags)

    return _BLOCK.sub(shown, markdown)


async def draw(missing: list[tuple[str, str]]) -> None:
    """Draw these diagrams, each a text and a shade."""
    from playwright.async_api import async_playwright

    async with async_playwright() as play:
        browser = await play.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = await browser.new_page()
        await page.add_script_tag(path=str(_script()))
        for text, shade in missing:
            picture(text, shade).write_text(await page.evaluate(_DRAW, [text, THEMES[shade]]) + "\n", "utf-8")
        await browser.close()


def _script() -> Path:
    script = MERMAID / "package" / "dist" / "mermaid.min.js"
    if not script.exists():
        MERMAID.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "pack", "--silent", "mermaid@11"], cwd=MERMAID, check=True)
        with tarfile.open(next(MERMAID.glob("*.tgz"))) as archive:
            archive.extractall(MERMAID, filter="data")
    return script


def main() -> None:
    """Draw what is missing, and remove what no page has."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    wanted = {picture(text, shade): (text, shade) for text in texts() for shade in THEMES}
    for stray in set(PICTURES.glob("*.svg")) - wanted.keys():
        stray.unlink()
    missing = [what for path, what in wanted.items() if not path.exists()]
    if missing:
        asyncio.run(draw(missing))
    print(f"{len(missing)} pictures drawn, {len(wanted)} in all")


if __name__ == "__main__":
    main()
