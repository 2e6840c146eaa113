"""The guard of a worker: a process beside it that extends its lease when the worker itself cannot."""
