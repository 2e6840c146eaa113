"""Words by which something is looked for: ids, queues, keys, names."""

from __future__ import annotations

from ..errors import ConfigError
from .bound import MOST_ID_BYTES


def check_words(**words: str | None) -> None:
    """Raise when one of these, by the name of its option, is no text that a store could have; `None` is not given."""
    for name, word in words.items():
        if word is None:
            continue
        if not isinstance(word, str):
            raise ConfigError(f"{name}={word!r}: a string was expected")
        if not word.isascii() and not _is_text(word):
            raise ConfigError(f"{name}={word!r}: it holds half a surrogate pair, which is no text")
        if "\0" in word:
            raise ConfigError(f"{name}={word!r}: it holds a NUL character, which not every store can keep")


def check_text(text: str, name: str, what: str, after: str = "") -> str:
    """Return a text by which the store finds jobs, or raise when it cannot be one."""
    if not isinstance(text, str) or not text:
        raise ConfigError(f"{name}={text!r}{after}: {what} is a string of at least one character")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise ConfigError(f"{name}={text!r}{after}: it holds half a surrogate pair, which is no text") from None
    if "\0" in text:
        raise ConfigError(f"{name}={text!r}{after}: it holds a NUL character, which not every store can keep")
    if size > MOST_ID_BYTES:
        raise ConfigError(f"{name}{after}: {what} is at most {MOST_ID_BYTES} bytes, and this one has {size}")
    return text


def _is_text(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True
