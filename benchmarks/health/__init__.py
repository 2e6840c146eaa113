"""A store over a long run: `python -m benchmarks.health`."""
