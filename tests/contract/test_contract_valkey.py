"""The contract suite on Valkey."""

from __future__ import annotations

from stores import contract_of

TestContract = contract_of("valkey")
