"""Ids that nobody else has."""

from __future__ import annotations

import itertools
import os
import time

_prefix = os.urandom(6).hex()
_numbers = itertools.count()


def _new_prefix() -> None:
    global _prefix
    _prefix = os.urandom(6).hex()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_prefix)


def new_id() -> str:
    """Return an id that nobody else has. Later ones sort later, which keeps indexes small and quick."""
    return f"{time.time_ns() // 1_000_000:012x}{next(_numbers) & 0xFFFFFFFF:08x}{_prefix}"
