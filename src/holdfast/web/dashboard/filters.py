"""The filters that an address of a list may have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...errors import ConfigError


def check_filters(given: Iterable[str], known: Sequence[str]) -> None:
    """Raise for a name that is no filter of a list: passed over, it would show everything."""
    for name in given:
        if name not in (*known, "cursor"):
            raise ConfigError(f"{name!r} is no filter of this list; known are {', '.join(known) or 'none'}")


def check_word(name: str, word: str, known: Iterable[str]) -> None:
    """Raise for a filter with a word that it cannot have; an empty one is no filter."""
    words = tuple(known)
    if word not in ("", *words):
        raise ConfigError(f"{name}={word!r} is none; known are {', '.join(words)}")
