"""Quiet for tasks that Spark ends early: `limit(1)` closes the pipe of a reader that has more to give."""

from __future__ import annotations

import sys
import traceback
from types import ModuleType

DAEMON = "pyspark.daemon"


class _Tracebacks(ModuleType):
    """The module `traceback`, as the process of a task sees it: a pipe that Spark closed is not worth printing."""

    def __getattr__(self, name: str) -> object:
        return getattr(traceback, name)

    def print_exc(self) -> None:
        """Print the current exception, unless Spark has closed the pipe of its task."""
        if not isinstance(sys.exc_info()[1], BrokenPipeError):
            traceback.print_exc()


def expect_broken_pipes() -> None:
    """Have Spark's Python process end in silence when its task is ended early. Elsewhere nothing happens.

    Spark's daemon prints a traceback when it cannot flush the rows that a limit has made superfluous, and leaves no
    other way to tell it not to than its own name for `traceback`.
    """
    main = sys.modules["__main__"]
    if getattr(main.__spec__, "name", None) == DAEMON and getattr(main, "traceback", None) is traceback:
        main.traceback = _Tracebacks("traceback")  # type: ignore[attr-defined]
