"""Which of two declarations holds: the higher version; and what to say when one version has two values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ..errors import ConfigError, PolicyConflict

MOST_VERSION = 2**53 - 1
MOST_SHOWN = 80
_ABSENT = object()


def check_version(version: object) -> int:
    """Return the version of an app's declarations, or raise when it cannot be one."""
    if type(version) is not int or not 0 <= version <= MOST_VERSION:
        raise ConfigError(f"version={version!r}: a whole number from 0 on, higher with each change of what is declared")
    return version


def declared_settings(
    what: str, stored: Mapping[str, Any], stored_version: int, given: Mapping[str, Any], version: int, *, partial: bool
) -> dict[str, Any] | None:
    """Return the settings of a queue that are to be written with this version, or `None` where nothing is.

    A partial declaration names some settings and leaves the others alone; another one says all there is.
    """
    wanted: dict[str, Any] = msgspec.to_builtins({**stored, **given} if partial else given)
    if wanted == stored:
        return wanted if version > stored_version and not partial else None
    if partial and version == stored_version and all(wanted[name] == stored[name] for name in stored):
        return wanted if not stored else None  # whoever has named the queue in this version decides about the rest
    return wanted if wins(what, stored or None, stored_version, wanted, version) else None


def wins(what: str, stored: Any, stored_version: int, wanted: Any, version: int) -> bool:
    """Return whether a declaration with another value than the stored one (`None`: there is none) takes its place."""
    if stored is not None and version == stored_version:
        raise PolicyConflict(
            f"{what} was declared before with version {version} and other values ({differences(stored, wanted)}): "
            f"raise the version of the app whose values shall hold (Holdfast(..., version={version + 1})), or give "
            "both the same values"
        )
    return version >= stored_version


def differences(stored: Any, wanted: Any) -> str:
    """Return where two declarations differ, with both values: `concurrency is 5 in the store, and 9 here`."""
    before, after = _flat(msgspec.to_builtins(stored)), _flat(msgspec.to_builtins(wanted))
    names = [name for name in {**before, **after} if before.get(name, _ABSENT) != after.get(name, _ABSENT)]
    return "; ".join(f"{name} is {_said(before, name)} in the store, and {_said(after, name)} here" for name in names)


def _said(values: Mapping[str, Any], name: str) -> str:
    text = repr(values[name]) if name in values else "not set"
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {prefix: value}
    found: dict[str, Any] = {}
    for name, child in value.items():
        found |= _flat(child, f"{prefix}.{name}" if prefix else str(name))
    return found
