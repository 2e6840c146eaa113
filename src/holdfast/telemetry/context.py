"""The job that a log record belongs to: every record that is made while a handler runs has its fields.

They are added to the record where it is made, after the program's own `extra`, whose fields stand. A record factory
could not do that: `logging` refuses an `extra` with a name that the factory has set, and `extra={"task": …}` is common.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from ..store.contract import Claimed
from .traces.relay import current_trace_id

FIELDS = ("job_id", "run", "attempt", "task", "queue", "trace_id")
"""The fields of a record that say to which job it belongs."""
TRACEPARENT = "traceparent"
_TRACE = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


class LoggedJob(Protocol):
    """A running job, as far as log records tell of it."""

    @property
    def id(self) -> str: ...
    @property
    def run(self) -> int: ...
    @property
    def attempt(self) -> int: ...
    @property
    def task(self) -> str | None: ...
    @property
    def queue(self) -> str: ...
    @property
    def headers(self) -> Mapping[str, str]: ...


Current = Callable[[], LoggedJob | None]
"""Returns the job whose handler makes the record."""


def trace_id(headers: Mapping[str, str]) -> str | None:
    """Return the trace that a job's headers name by W3C's rules; `None` for none."""
    given = headers.get(TRACEPARENT) if headers else None
    found = _TRACE.fullmatch(given) if given is not None else None
    return found[1] if found is not None else None


def fields_of(job: LoggedJob) -> dict[str, object]:
    """Return the fields of a record that belongs to this job, and is made now by its handler.

    An attempt may have begun a trace of its own: then its records are of that one, and not of what sent the job.
    """
    return {
        "job_id": job.id, "run": job.run, "attempt": job.attempt, "task": job.task, "queue": job.queue,
        "trace_id": current_trace_id() or trace_id(job.headers),
    }  # fmt: skip


def fields_of_claimed(claimed: Claimed, trace: Mapping[str, str] | None = None) -> dict[str, object]:
    """Return the fields of a record that belongs to a job that was given to this worker, and runs in this trace."""
    lease = claimed.lease
    return {
        "job_id": lease.id, "run": lease.run, "attempt": lease.attempt, "task": claimed.task, "queue": lease.queue,
        "trace_id": (trace_id(trace) if trace else None) or trace_id(claimed.envelope.headers),
    }  # fmt: skip


class _MakeRecord:
    """`Logger.makeRecord` while workers of this process run: it is wrapped once, for as long as one of them does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users: list[Current] = []
        self._before: Callable[..., logging.LogRecord] | None = None
        """What was wrapped, while the wrapper is there."""
        self._passed = False

    def add(self, current: Current) -> None:
        with self._lock:
            self._users.append(current)
            if not self._is_called():
                self._before = logging.Logger.makeRecord
                logging.Logger.makeRecord = self._around(self._before)  # type: ignore[method-assign]

    def remove(self, current: Current) -> None:
        with self._lock:
            self._users.remove(current)
            is_outermost = getattr(logging.Logger.makeRecord, "_of", None) is self
            if not self._users and self._before is not None and is_outermost:
                logging.Logger.makeRecord = self._before  # type: ignore[method-assign]

    def _is_called(self) -> bool:
        """Return whether the wrapper is there, perhaps inside of another's: then it stays, and does nothing unused."""
        self._passed = False
        logging.Logger.makeRecord(logging.root, "", 0, "", 0, "", (), None)
        return self._passed

    def _around(self, make: Callable[..., logging.LogRecord]) -> Callable[..., logging.LogRecord]:
        users = self._users

        def make_record(*args: Any, **kwargs: Any) -> logging.LogRecord:
            self._passed = True
            record = make(*args, **kwargs)
            if users and (job := users[0]()) is not None:
                known = record.__dict__
                for name, value in fields_of(job).items():
                    known.setdefault(name, value)
            return record

        make_record._of = self  # type: ignore[attr-defined]
        return make_record


_make_record = _MakeRecord()


@contextmanager
def records_with_jobs(current: Current) -> Iterator[None]:
    """Give every log record that is made in this process the fields of its job. May be nested."""
    _make_record.add(current)
    try:
        yield
    finally:
        _make_record.remove(current)
