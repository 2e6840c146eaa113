"""The name under which Holdfast is installed, and its extras; `holdfast` on PyPI is a project of other people."""

from __future__ import annotations

from importlib.util import find_spec

from .errors import MissingExtra

DISTRIBUTION = "holdfast-queue"
"""As in pyproject.toml. Every hint takes it from here."""


def pip_install(*extras: str) -> str:
    """Return the command that installs Holdfast with `extras`."""
    chosen = f"[{','.join(extras)}]" if extras else ""
    return f"pip install '{DISTRIBUTION}{chosen}'"


def require(what: str, *packages: str, extra: str) -> None:
    """Raise MissingExtra, saying what to install, where a package that `what` needs is missing."""
    for package in packages:
        if find_spec(package) is None:
            raise MissingExtra(f"{what} needs {package}, which is missing: {pip_install(extra)}")
