"""Cursors of lists: where the next page begins, and for which list of which kind of store that holds."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from typing import Literal, NamedTuple

import msgspec

from ..errors import ConfigError
from .contract import Filter
from .pages import FIRST_PLACE, SortPlace

LAST = FIRST_PLACE.run
"""Above every run: a list begins below it."""
Listed = Literal["jobs", "chains"]
_FORM = re.compile(r"([a-z]+)-([0-9a-f]{8})-([A-Za-z0-9_-]+)")
_MOST_DIGITS = 18
_PLACE = re.compile(r"(-?[0-9]{1,18})/(-?[0-9]{1,18})")


class ListCursor(NamedTuple):
    """Makes and reads the cursors of one list."""

    kind: str
    """The kind of store, such as `sqlite`."""
    listed: Listed
    which: Filter

    def text(self, place: str) -> str:
        """Return the cursor of a place."""
        return f"{self.kind}-{self._digest()}-{base64.urlsafe_b64encode(place.encode()).decode().rstrip('=')}"

    def place(self, text: str | None) -> str | None:
        """Return the place of a cursor; raise `ConfigError` when it is one of another list or store, or none at all."""
        if text is None:
            return None
        found = _FORM.fullmatch(text)
        if found is None:
            raise self._no_cursor(text)
        kind, digest, place = found.groups()
        if kind != self.kind:
            raise ConfigError(f"cursor {text!r} is of another store ({kind}, not {self.kind}): begin at the first page")
        if digest != self._digest():
            raise ConfigError(f"cursor {text!r} is of a list with another filter: begin at the first page of this one")
        try:
            return base64.urlsafe_b64decode(place + "=" * (-len(place) % 4)).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise self._no_cursor(text) from None

    def run(self, text: str | None) -> int:
        """Return the run below which the page begins, where a cursor is nothing else."""
        place = self.place(text)
        if place is None:
            return LAST
        if not (place.isascii() and place.isdigit() and len(place) <= _MOST_DIGITS):
            raise self._no_cursor(str(text))
        return int(place)

    def after(self, place: SortPlace | None) -> str | None:
        """Return the cursor behind a place of a list in the order of a state; `None` when there is nothing more."""
        return None if place is None else self.text(f"{place.at}/{place.run}")

    def placed(self, text: str | None) -> SortPlace:
        """Return the place below which the page begins, of a list in the order of a state."""
        place = self.place(text)
        if place is None:
            return FIRST_PLACE
        found = _PLACE.fullmatch(place)
        if found is None:
            raise self._no_cursor(str(text))
        return SortPlace(int(found[1]), int(found[2]))

    def _no_cursor(self, text: str) -> ConfigError:
        return ConfigError(f"cursor {text!r} is not one that a list of {self.listed} gave")

    def _digest(self) -> str:
        """Return what tells the list from others. Which sessions a worker has may change from page to page."""
        which = msgspec.structs.replace(self.which, holders=("",) if self.which.holders else ())
        return hashlib.blake2s(msgspec.json.encode((self.listed, which)), digest_size=4).hexdigest()
