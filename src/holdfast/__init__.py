"""Holdfast: a job queue for Python that never lets go of a job."""

from .abort import Signal
from .app import Holdfast
from .bulk import Counts
from .client import Handle
from .codec import Codec
from .core.event import Event
from .core.job import ErrorRecord, JobRecord, Progress
from .core.limit import QueueSettings, Rate, Retention
from .core.policy import Counters, Policy, Retry
from .core.state import State
from .core.transition import Reply
from .errors import (
    Aborted,
    ConfigError,
    HoldfastError,
    JobCancelled,
    JobError,
    JobFailed,
    JobMissing,
    JobTimeout,
    LeaseLost,
    MissingExtra,
    PayloadError,
    Permanent,
    PolicyConflict,
    Snooze,
    StoreBusy,
    StoreClosed,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreTooNew,
    UnknownScheme,
)
from .hook import Happening
from .job import FailedJob, Job, current_job
from .option import Dedup
from .queue import Queue
from .store import Store, register_store
from .task import Call, Task
from .worker import Worker

__version__ = "0.1.0"

__all__ = [
    "Aborted",
    "Call",
    "Codec",
    "ConfigError",
    "Counters",
    "Counts",
    "Dedup",
    "ErrorRecord",
    "Event",
    "FailedJob",
    "Handle",
    "Happening",
    "Holdfast",
    "HoldfastError",
    "Job",
    "JobCancelled",
    "JobError",
    "JobFailed",
    "JobMissing",
    "JobRecord",
    "JobTimeout",
    "LeaseLost",
    "MissingExtra",
    "PayloadError",
    "Permanent",
    "Policy",
    "PolicyConflict",
    "Progress",
    "Queue",
    "QueueSettings",
    "Rate",
    "Reply",
    "Retention",
    "Retry",
    "Signal",
    "Snooze",
    "State",
    "Store",
    "StoreBusy",
    "StoreClosed",
    "StoreCorrupt",
    "StoreError",
    "StoreFull",
    "StoreReadOnly",
    "StoreTooNew",
    "Task",
    "UnknownScheme",
    "Worker",
    "current_job",
    "register_store",
]
