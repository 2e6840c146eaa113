"""Named steps of a batch, at which a test may stop it. In production they do nothing."""

from __future__ import annotations

from collections.abc import Callable

OnStep = Callable[[str], None]
"""Called with the name of each step, after it."""

STEPS = (
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
"""Every step, in order."""


def ignore_step(step: str) -> None:
    """Do nothing."""
