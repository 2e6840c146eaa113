"""The page of troubles says what the code says: log events, errors and messages are looked for in the source."""

from __future__ import annotations

import re
from functools import cache

import pytest
from blocks import DOCS, ROOT

PAGE = (DOCS / "operate" / "troubleshooting.md").read_text()
ROWS = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| you see")]
SAID = [words for row in ROWS for words in re.findall(r"`([^`]+)`", row)]


@cache
def source() -> str:
    """Return the text of the package, with strings that go on in the next line joined."""
    text = "\n".join(path.read_text() for path in sorted((ROOT / "src" / "holdfast").rglob("*.py")))
    return re.sub(r'"\n\s+f?"', "", text)


def test_the_page_has_troubles() -> None:
    assert len(ROWS) > 40
    assert len(SAID) > 30


@pytest.mark.parametrize("words", sorted(set(SAID)))
def test_what_you_see_is_what_the_code_says(words: str) -> None:
    assert words in source()
