"""Helpers for your own tests: a manual clock, jobs that run in place, and an empty store for each test.

`holdfast.testing.contract` is the suite that every store must pass, your own included.
"""

from .clock import ManualClock
from .drain import Ran, drain
from .isolate import isolate

__all__ = ["ManualClock", "Ran", "drain", "isolate"]
