"""Helpers for your own tests: a manual clock, time travel, jobs that run in place, and what was enqueued.

`holdfast.testing.contract` is the suite that every store must pass, your own included.
"""

from .clock import ManualClock
from .drain import Ran, drain, run_one
from .enqueued import assert_enqueued, assert_not_enqueued
from .failing import failing
from .isolate import isolate
from .travel import advance_to_next, travel

__all__ = [
    "ManualClock",
    "Ran",
    "advance_to_next",
    "assert_enqueued",
    "assert_not_enqueued",
    "drain",
    "failing",
    "isolate",
    "run_one",
    "travel",
]
