"""What has changed between two values of the same kind, for people."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec


def changed_fields(before: msgspec.Struct, after: msgspec.Struct) -> str:
    """Return the fields that differ, with both values: `concurrency 5 -> 2, paused False -> True`."""
    return ", ".join(_changes("", before, after))


def _changes(above: str, before: msgspec.Struct, after: msgspec.Struct) -> Iterator[str]:
    for name in before.__struct_fields__:
        old, new = getattr(before, name), getattr(after, name)
        if type(old) is type(new) and isinstance(old, msgspec.Struct):
            yield from _changes(f"{above}{name}.", old, new)
        elif old != new:
            yield f"{above}{name} {old} -> {new}"
