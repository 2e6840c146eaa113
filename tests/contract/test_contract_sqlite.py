"""The contract suite on a SQLite file."""

from __future__ import annotations

from stores import contract_of

TestContract = contract_of("sqlite")
