"""Arrays as PostgreSQL reads them. A list of nothing but `None` is NULL, and costs nothing."""

from __future__ import annotations

from collections.abc import Sequence


def texts(items: Sequence[str | None]) -> str | None:
    """Return a literal of `text[]`."""
    quoted = [None if item is None else f'"{_escaped(item)}"' for item in items]
    return _literal(quoted)


def numbers(items: Sequence[float | None]) -> str | None:
    """Return a literal of `bigint[]` or `integer[]`."""
    return _literal([None if item is None else str(item) for item in items])


def blobs(items: Sequence[bytes | None]) -> str | None:
    """Return a literal of `bytea[]`."""
    return _literal([None if item is None else f'"\\\\x{item.hex()}"' for item in items])


def blob(item: bytes | None) -> str | None:
    """Return a literal of `bytea`."""
    return None if item is None else f"\\x{item.hex()}"


def _escaped(item: str) -> str:
    return item.replace("\\", "\\\\").replace('"', '\\"') if "\\" in item or '"' in item else item


def _literal(items: Sequence[str | None]) -> str | None:
    if None not in items:
        return "{" + ",".join(items) + "}"  # type: ignore[arg-type]
    if all(item is None for item in items):
        return None if items else "{}"
    return "{" + ",".join("NULL" if item is None else item for item in items) + "}"
