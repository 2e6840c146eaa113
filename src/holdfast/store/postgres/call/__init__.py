"""Calls of functions in the server: their arguments by name, and their replies as the contract has them."""
