"""Records and events: their bytes, and what they mean."""
