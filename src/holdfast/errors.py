"""Every error that Holdfast raises.

HoldfastError
├── ConfigError            an option, URL or declaration that cannot be right
│   ├── UnknownScheme      a store URL of a kind that is not registered
│   ├── MissingExtra       the package for this feature is not installed
│   ├── PolicyConflict     the same version of a declaration with another value
│   └── ScheduleMissing    there is no schedule of that name
├── PendingFull            too many jobs of `enqueue_nowait` are on their way to the store
├── PayloadError           arguments or a result that would not come back as they went in
│   ├── ResultInvalid      raised for a handler whose result cannot be encoded: its job fails for good
│   └── PayloadTooLarge    they have more bytes than `max_payload` or `max_result` allows
│       └── ResultTooLarge  raised for a handler whose result is too large: its job fails for good
├── StoreError             the store could not do it
│   ├── StoreBusy          another process held the store for too long
│   ├── StoreFull          no room left on the disk or in memory
│   ├── StoreCorrupt       the file is damaged, or is not a Holdfast store
│   ├── StoreReadOnly      the file or its folder cannot be written
│   ├── StoreTooNew        the store was written by a newer Holdfast
│   ├── StoreClosed        the app was not opened, or is closed already
│   └── LogGap             events were trimmed, or the log was reset, before they were read
├── JobError               a job did not give a result
│   ├── JobFailed          it failed for good; carries the stored error
│   ├── JobCancelled       it was cancelled
│   ├── JobTimeout         it gave no result in time; the job goes on
│   └── JobMissing         there is no such job, or its result has expired
├── LakeError              the lake's disk or object storage could not do it
│   ├── LakeBusy           another process has just written to the same lake
│   └── LakeTooNew         the lake was written by a newer Holdfast
├── Aborted                raised inside a handler that was told to stop (`job.signal.check()`)
├── LeaseLost              raised inside a handler whose lease was taken away
├── HandlerRaised          what middleware sees of an exception that a handler raised in a process of its own
└── Outcome                raised by a handler, to say how its attempt ends
    ├── Snooze             run again at an exact time; costs no failure
    ├── RetryAt            it failed, and is tried again at an exact time
    └── Permanent          do not try again
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any


class HoldfastError(Exception):
    """Base of every error that Holdfast raises."""


class ConfigError(HoldfastError, ValueError):
    """An option, URL or declaration that cannot be right."""


class UnknownScheme(ConfigError):
    """A store URL of a kind that is not registered."""


class MissingExtra(ConfigError, ImportError):
    """The package for this feature is not installed; the message names the extra to install."""


class LakeError(HoldfastError):
    """The disk or object storage of a lake could not do it. Nothing is half-written: the next run goes on."""


class LakeTooNew(LakeError):
    """The lake was written by a newer Holdfast."""


class LakeBusy(LakeError):
    """Another process has just written to the same lake. Nothing is lost or doubled: try again."""


class PendingFull(HoldfastError):
    """Too many jobs of `enqueue_nowait` are on their way to the store: nothing was done for this one."""


class PayloadError(HoldfastError, TypeError):
    """Arguments or a result that would not come back as they went in.

    `path` names the value (`payload.items[2].when`), and `index` the entry of `enqueue_many`, from 0 on.
    """

    index: int | None = None

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class PayloadTooLarge(PayloadError):
    """Arguments or a result have `size` bytes, which is more than `limit`: `max_payload` or `max_result`."""

    def __init__(self, message: str, *, path: str = "", size: int = 0, limit: int = 0) -> None:
        super().__init__(message, path=path)
        self.size = size
        self.limit = limit


class PolicyConflict(ConfigError):
    """The same version of a declaration was made with another value."""


class ScheduleMissing(ConfigError, LookupError):
    """There is no schedule of that name."""


class StoreError(HoldfastError):
    """The store could not do what it was asked."""


class StoreBusy(StoreError):
    """Another process held the store for too long."""


class StoreFull(StoreError):
    """No room is left on the disk or in memory."""


class StoreCorrupt(StoreError):
    """The file is damaged, or is not a Holdfast store."""


class StoreReadOnly(StoreError):
    """The file or its folder cannot be written."""


class StoreTooNew(StoreError):
    """The store was written by a newer Holdfast."""


class StoreClosed(StoreError):
    """The app was not opened, or is closed already."""


class LogGap(StoreError):
    """Events were gone before they could be read: `missing` of them, or, of a log that was reset, an unknown number."""

    def __init__(self, message: str, *, missing: int | None = None) -> None:
        super().__init__(message)
        self.missing = missing


class JobError(HoldfastError):
    """A job did not give a result."""

    def __init__(self, message: str, *, queue: str = "", job_id: str = "", run: int | None = None) -> None:
        super().__init__(message)
        self.queue = queue
        self.job_id = job_id
        self.run = run


class JobFailed(JobError):
    """The job failed for good; `error` is what its last attempt left."""

    def __init__(self, message: str, *, error: Any = None, **where: Any) -> None:
        super().__init__(message, **where)
        self.error = error


class JobCancelled(JobError):
    """The job was cancelled."""


class JobTimeout(JobError, TimeoutError):
    """The job gave no result in time. It goes on; ask again later."""


class JobMissing(JobError, LookupError):
    """There is no such job, or its result has expired."""


class Aborted(HoldfastError):
    """The handler was told to stop; `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"told to stop: {reason}")
        self.reason = reason


class LeaseLost(HoldfastError):
    """This attempt no longer holds its job; whatever it writes now is refused."""


class HandlerRaised(HoldfastError):
    """A handler raised in a process of its own. `error` is the record of it; the exception itself stayed there."""

    def __init__(self, error: Any) -> None:
        super().__init__(f"{error.type}: {error.message}")
        self.error = error


class Outcome(HoldfastError):
    """Raised by a handler to say how its attempt ends."""


class Snooze(Outcome):
    """Run again at an exact time. It costs no failure."""

    def __init__(self, *, at: datetime | float | None = None, after: timedelta | float | None = None) -> None:
        if (at is None) == (after is None):
            raise ConfigError("Snooze takes exactly one of at= (a time) and after= (a duration)")
        super().__init__(f"snoozed until {at}" if at is not None else f"snoozed for {after}")
        self.at = at
        self.after = after


class RetryAt(Outcome):
    """The attempt failed, and the next one is at an exact time: `when`, or after `delay`.

    It counts as a failure, and at the limit of failures it fails the job. `error` is the failure, which is kept and
    shown; without it, what this was raised from.
    """

    def __init__(
        self,
        when: datetime | float | None = None,
        error: BaseException | None = None,
        *,
        delay: timedelta | float | None = None,
    ) -> None:
        if (when is None) == (delay is None):
            raise ConfigError("RetryAt takes exactly one of a time (RetryAt(when)) and a duration (RetryAt(delay=...))")
        if error is not None and not isinstance(error, BaseException):
            raise ConfigError(f"RetryAt(error={error!r}): an exception, or None")
        told = f": {error}" if error is not None else ""
        super().__init__((f"try again at {when}" if when is not None else f"try again after {delay}") + told)
        self.when = when
        self.delay = delay
        self._error = error

    @property
    def error(self) -> BaseException:
        """The failure itself: what was given, or what this was raised from; else this."""
        return self._error or self.__cause__ or self


class Permanent(Outcome):
    """The job fails now, whatever retries it has left."""


class ResultInvalid(PayloadError, Permanent):
    """The result of a handler cannot be encoded. Its job fails now: it would be so again."""


class ResultTooLarge(PayloadTooLarge, Permanent):
    """The result of a handler has more bytes than `max_result` allows. Its job fails now: it would be so again."""
