"""Garbage for the columns of a table: values of the wrong kind, and values that nobody ever wrote."""

from __future__ import annotations

INTEGERS = ("'rubbish'", "x'00ff'", "1.5", "9223372036854775807", "-9223372036854775808")
TEXTS = ("x'00ff'", "CAST(x'ff8041' AS TEXT)")
BLOBS = ("'text'", "x'7b6e6f'", "x'ff00'", "5")
SQLITE = {"INTEGER": INTEGERS, "TEXT": TEXTS, "BLOB": BLOBS, "REAL": ("'rubbish'", "x'00'", "9e999")}
"""By the declared type of a column, as SQL."""
STATES = ("'bogus'", "''")

_NUMBERS = ("-1", "{most}", "-{most}")
POSTGRES = {
    "integer": tuple(each.format(most=2**31 - 1) for each in _NUMBERS),
    "bigint": tuple(each.format(most=2**63 - 1) for each in _NUMBERS),
    "double precision": ("'NaN'", "'Infinity'", "-1"),
    "jsonb": ("'\"no\"'", "'17'", "'[]'", '\'{"priority": "x", "failures": "x", "retry": 7}\''),
    "bytea": ("'\\xff00'", "'\\x7b6e6f'", "''"),
    "text": (),
    "boolean": (),
}
"""The same there: any text is a text, and one truth as good as the other."""
