"""A torture of Holdfast: jobs of every kind, faults of every kind, and a ledger that the handlers keep by themselves.

`python -m torture --store sqlite` (see `__main__.py`); docs/reliability.md says what it tries and what came of it.
"""
