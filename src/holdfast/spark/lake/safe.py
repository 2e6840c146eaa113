"""Job data in a page."""

from __future__ import annotations

from html import escape

from ...core.visible import visible


def text(value: str) -> str:
    """Return text that a page shows as it is: no markup, and nothing that is invisible or turns the writing."""
    return escape(visible(value))
