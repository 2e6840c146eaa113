"""For the tests of those who use Holdfast: a manual clock, jobs that run in place, and a store of one's own.

`holdfast.testing.contract` is for those who write a store: it tells whether it is right.
"""

from .clock import ManualClock
from .drain import Ran, drain
from .isolate import isolate

__all__ = ["ManualClock", "Ran", "drain", "isolate"]
