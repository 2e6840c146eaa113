"""What a keyboard sends, as the names of keys: `up`, `enter`, `escape`, `ctrl-l`, or the character itself."""

from __future__ import annotations

import codecs
import re

_SEQUENCES = {
    "[A": "up", "[B": "down", "[C": "right", "[D": "left", "OA": "up", "OB": "down", "OC": "right", "OD": "left",
    "[H": "home", "[F": "end", "OH": "home", "OF": "end", "[1~": "home", "[4~": "end", "[7~": "home", "[8~": "end",
    "[5~": "pageup", "[6~": "pagedown", "[Z": "backtab", "[3~": "delete",
}  # fmt: skip
_NAMED = {"\r": "enter", "\n": "enter", "\t": "tab", "\x7f": "backspace", "\x08": "backspace", "\x0c": "ctrl-l"}
_WHOLE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O[ -~])")
_BEGUN = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|O)?\Z")
LONGEST = 32
"""No sequence of a key is longer; more is something else, and is dropped."""


class KeyParser:
    """Turns bytes into keys, also where a read ends in the middle of a sequence or of a character."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    @property
    def unsure(self) -> bool:
        """Whether the last byte was an escape: the key, or the beginning of a sequence."""
        return bool(self._rest)

    def feed(self, data: bytes) -> list[str]:
        """Return the keys that are complete."""
        text = self._rest + self._decoder.decode(data)
        self._rest = ""
        keys: list[str] = []
        while text:
            if _BEGUN.match(text) and len(text) < LONGEST:
                self._rest = text
                break
            key, text = _next_key(text)
            if key:
                keys.append(key)
        return keys

    def flush(self) -> list[str]:
        """Return what an escape meant, now that nothing followed it."""
        rest, self._rest = self._rest, ""
        return ["escape"] if rest else []


def _next_key(text: str) -> tuple[str | None, str]:
    """Return the first key, `None` for one that means nothing here, and the text behind it."""
    if text[0] == "\x1b":
        found = _WHOLE.match(text)
        if found is None:
            return "escape", text[1:]
        return _SEQUENCES.get(found[0][1:]), text[found.end() :]
    first = text[0]
    return _NAMED.get(first) or (first if first.isprintable() else None), text[1:]
