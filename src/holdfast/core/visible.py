"""Text that is safe to show: what jobs carry may come from anywhere, and must not steer a terminal or forge a line.

Escaped are control characters (C0, DEL and C1), line and paragraph separators, marks that turn the direction of
writing, characters without width that hide others, tags, and lone surrogates. Joiners that scripts need stay.
"""

from __future__ import annotations

import re

_UNSAFE = (
    r"\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    r"\U000e0000-\U000e007f"
)
_anything = re.compile(f"[{_UNSAFE}]")
_but_lines = re.compile(f"(?![\n\t])[{_UNSAFE}]")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(text: str) -> str:
    """Return text as one line in which everything can be seen: `a\\x1b[2J\\n`."""
    return text if text.isascii() and text.isprintable() else _anything.sub(_escape, text)


def visible_lines(text: str) -> str:
    """Return text whose lines stay lines, and in which everything else can be seen."""
    return _but_lines.sub(_escape, text)


def visible_json(text: str) -> str:
    """Return JSON that means the same, written so that it steers no terminal: `"\\u202e"`."""
    return _but_lines.sub(_escape_json, text)


def indented(text: str) -> str:
    """Return lines that belong to the one before them: none begins where a line of a log does."""
    return "\n".join(f"  {line}" for line in visible_lines(text).split("\n"))


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    code = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escape_json(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))
