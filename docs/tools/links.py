"""Ask every link that leaves the docs whether it still leads somewhere: `make links`. No test does that."""

from __future__ import annotations

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

sys.path.insert(0, str(Path(__file__).parent))

from nav import DOCS, ROOT

_LINK = re.compile(r"\]\((https?://[^)\s]+)\)")


def links() -> dict[str, str]:
    """Return every such link, with a page that has it."""
    pages = [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]
    return {link: str(page.relative_to(ROOT)) for page in pages for link in _LINK.findall(page.read_text("utf-8"))}


def answer(link: str) -> str:
    """Return what is wrong with a link, or nothing."""
    try:
        with urlopen(Request(link, headers={"User-Agent": "holdfast-docs"}), timeout=20) as reply:
            return "" if reply.status < 400 else str(reply.status)
    except HTTPError as error:
        return str(error.code) if error.code in (404, 410) else ""  # others refuse programs, not readers
    except OSError as error:
        return str(error)


def main() -> int:
    """Print what is wrong; return the exit code."""
    found = links()
    with ThreadPoolExecutor(8) as pool:
        lost = [(link, said) for link, said in zip(found, pool.map(answer, found), strict=True) if said]
    for link, said in lost:
        print(f"{found[link]}: {link}: {said}")
    print(f"{len(found)} links, {len(lost)} lead nowhere")
    return 1 if lost else 0


if __name__ == "__main__":
    raise SystemExit(main())
