"""The version of Holdfast."""

from __future__ import annotations

VERSION = "0.1.0"
"""As in pyproject.toml."""
