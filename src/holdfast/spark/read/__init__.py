"""A store's tables as DataFrames, and its event log as a stream."""
