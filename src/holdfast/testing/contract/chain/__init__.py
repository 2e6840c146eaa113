"""Chains and blockers."""
