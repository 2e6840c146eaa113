"""Every entry point of the library."""

from __future__ import annotations

from . import inspect, produce, work
from .entry import EntryPoint

ENTRY_POINTS: tuple[EntryPoint, ...] = (*produce.ENTRIES, *work.ENTRIES, *inspect.ENTRIES)
"""`version` is none of them: it has neither keys nor arguments, so that any version may be asked for it."""
