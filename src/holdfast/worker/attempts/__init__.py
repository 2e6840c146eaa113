"""Attempts: a claimed job, its handler, what the handler may ask of its worker, and how it ended."""
