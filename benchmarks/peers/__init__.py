"""The systems Holdfast is compared with: one file each, found by being here."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

from benchmarks.system import System

FOLDER = Path(__file__).parent


def known(store: str) -> dict[str, list[System]]:
    """The peers for a store by name, each with the settings it is measured in."""
    found = {path.stem: systems(path) for path in sorted(FOLDER.iterdir()) if _is_peer(path)}
    fitting = {name: [each for each in rows if each.store == store] for name, rows in found.items()}
    return {name: rows for name, rows in fitting.items() if rows}


def systems(path: Path) -> list[System]:
    """A Python peer says SYSTEMS; a node peer says the same as JSON in its first line, a comment."""
    if path.suffix == ".py":
        return list(import_module(f"{__name__}.{path.stem}").SYSTEMS)
    header = path.read_text().splitlines()[0].removeprefix("//")
    return [
        System(script=str(path), **{**each, "measures": tuple(each["measures"]), "most": _pairs(each)})
        for each in json.loads(header)
    ]


def _is_peer(path: Path) -> bool:
    return path.suffix in {".py", ".mjs"} and not path.stem.startswith("_")


def _pairs(header: dict[str, dict[str, int]]) -> tuple[tuple[str, int], ...]:
    return tuple(header.get("most", {}).items())
