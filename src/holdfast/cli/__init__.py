"""The command line: `holdfast ...` and `python -m holdfast ...`."""

from .root import cli, main

__all__ = ["cli", "main"]
