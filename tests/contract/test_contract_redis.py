"""The contract suite on Redis."""

from __future__ import annotations

from stores import contract_of

TestContract = contract_of("redis")
