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
    LakeBusy,
    LeaseLost,
    LogGap,
    MissingExtra,
    Outcome,
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
from .job import Completion, FailedJob, Job, Transaction, current_job
from .option import Dedup
from .queue import Queue
from .store import Store, register_store
from .store.contract import Cancelled, EventPage, JobPage, QueueInfo, SessionInfo
from .task import Call, Task
from .worker import Report, Worker

__version__ = "0.1.0"

__all__ = [
    "Aborted",
    "Call",
    "Cancelled",
    "Codec",
    "Completion",
    "ConfigError",
    "Counters",
    "Counts",
    "Dedup",
    "ErrorRecord",
    "Event",
    "EventPage",
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
    "JobPage",
    "JobRecord",
    "JobTimeout",
    "LakeBusy",
    "LeaseLost",
    "LogGap",
    "MissingExtra",
    "Outcome",
    "PayloadError",
    "Permanent",
    "Policy",
    "PolicyConflict",
    "Progress",
    "Queue",
    "QueueInfo",
    "QueueSettings",
    "Rate",
    "Reply",
    "Report",
    "Retention",
    "Retry",
    "SessionInfo",
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
    "Transaction",
    "UnknownScheme",
    "Worker",
    "current_job",
    "register_store",
]
