"""The pages of the API that are made from docstrings: one for each group of public names."""

from __future__ import annotations

import importlib
from typing import NamedTuple

FOLDER = "reference/python"


class ApiPage(NamedTuple):
    """A module whose public names have a page."""

    module: str
    title: str
    about: str


GROUPS = (
    ApiPage("holdfast", "holdfast", "What an application imports: apps, tasks, queues, jobs, options and records."),
    ApiPage(
        "holdfast.errors", "holdfast.errors", "Every error, and what a handler may raise to say what should happen."
    ),
    ApiPage(
        "holdfast.testing",
        "holdfast.testing",
        "Fixtures, a clock that stands still, and the suite that checks a store.",
    ),
    ApiPage("holdfast.telemetry", "holdfast.telemetry", "Logs, metrics and traces."),
    ApiPage("holdfast.web", "holdfast.web", "The dashboard and the HTTP API, as an ASGI application."),
    ApiPage("holdfast.spark", "holdfast.spark", "DataFrames, fleets and the lake."),
)
NAV = {"API": [{group.title: f"{FOLDER}/{group.module}.md"} for group in GROUPS]}
"""The section of the site's navigation."""


def pages() -> dict[str, str]:
    """Return the path and the text of each page."""
    return {f"{FOLDER}/{group.module}.md": _page(group) for group in GROUPS}


def _page(group: ApiPage) -> str:
    names = [name for name in _names(group.module) if _home(group.module, name)]
    directives = [f"::: {_home(group.module, name)}.{name}" for name in names]
    hand_written = "[The hand-written reference](../api.md) says more of each, with defaults and examples."
    return (
        "\n\n".join([f"# {group.title}", group.about, f"Made from the docstrings. {hand_written}", *directives]) + "\n"
    )


def _names(module: str) -> list[str]:
    """Return the public names of a module, without those of errors where they have a page of their own."""
    found = importlib.import_module(module)
    names = getattr(found, "__all__", None) or [name for name in vars(found) if not name.startswith("_")]
    return sorted(names, key=str.lower)


def _home(module: str, name: str) -> str | None:
    """Return the module that defines a name; none for what is not ours, and for errors outside their page."""
    thing = getattr(importlib.import_module(module), name)
    home = getattr(thing, "__module__", None)
    if not isinstance(home, str) or not home.startswith("holdfast") or getattr(thing, "__name__", None) != name:
        return None
    return home if (home == "holdfast.errors") == (module == "holdfast.errors") else None
