"""The contract suite on PostgreSQL."""

from __future__ import annotations

from stores import contract_of

TestContract = contract_of("postgresql")
