"""Garbage for the columns of a table: values of the wrong kind, and values that nobody ever wrote."""

from __future__ import annotations

INTEGERS = ("'rubbish'", "x'00ff'", "1.5", "9223372036854775807", "-9223372036854775808")
TEXTS = ("x'00ff'", "CAST(x'ff8041' AS TEXT)")
BLOBS = ("'text'", "x'7b6e6f'", "x'ff00'", "5")
SQLITE = {"INTEGER": INTEGERS, "TEXT": TEXTS, "BLOB": BLOBS, "REAL": ("'rubbish'", "x'00'", "9e999")}
"""By the declared type of a column, as SQL."""
STATES = ("'bogus'", "''")
