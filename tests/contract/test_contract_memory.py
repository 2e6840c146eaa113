"""The contract suite on SQLite in memory."""

from __future__ import annotations

from stores import contract_of

TestContract = contract_of("memory")
