"""Turns: what a worker asks the store for next, and what is on its way."""
