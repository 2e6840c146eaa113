"""Running jobs: claim, run, settle, and let nothing fall."""

from .pump import Report
from .worker import Worker

__all__ = ["Report", "Worker"]
