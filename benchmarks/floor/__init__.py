"""The floor: what the bare store does, with the least that a queue must write."""
