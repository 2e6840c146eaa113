"""One run of `python -m benchmarks`: environments, processes, measures, rounds, targets and the report."""
