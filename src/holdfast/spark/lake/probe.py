"""Named points on the way of a batch, at which a test may stop it. In production they do nothing."""

from __future__ import annotations

from collections.abc import Callable

Reached = Callable[[str], None]

POINTS = (
    "planned",
    "events written",
    "events committed",
    "attempts written",
    "attempts committed",
    "jobs written",
    "jobs committed",
    "tenants committed",
    "errors committed",
    "minutes committed",
    "workers committed",
    "held",
)
"""Every point, in the order in which a batch comes by."""


def nothing(point: str) -> None:
    """Go on."""
