"""What a handler sees of its job, and says to it."""
