"""Where a handler runs: in the event loop, or in a thread."""

from .inline import run_inline
from .thread import ThreadExecutor

__all__ = ["ThreadExecutor", "run_inline"]
