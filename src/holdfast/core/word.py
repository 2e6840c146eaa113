"""Words by which something is looked for: ids, queues, keys, names."""

from __future__ import annotations

from ..errors import ConfigError


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


def _is_text(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True
