"""The contract suite on a cluster of Redis or Valkey."""

from __future__ import annotations

from stores import contract_of

TestContract = contract_of("cluster")
