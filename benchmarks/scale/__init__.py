"""More processes: `python -m benchmarks.scale`."""
