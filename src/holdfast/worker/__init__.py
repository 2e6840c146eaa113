"""Running jobs: claim, run, settle, and let nothing fall."""

from .report import Report
from .worker import Worker

__all__ = ["Report", "Worker"]
