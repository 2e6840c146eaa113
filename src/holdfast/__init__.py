"""Holdfast: a job queue for Python that never lets go of a job."""

from .abort import Signal
from .app import Holdfast
from .bulk import Counts
from .client import Handle
from .codec import Codec
from .continuation import Blocker, Continued
from .core.chain import ChainRef
from .core.event import Event
from .core.job import ErrorRecord, JobRecord, Progress
from .core.limit import QueueSettings, Rate, Retention
from .core.policy import Counters, Policy, Retry
from .core.sandbox import Sandbox
from .core.schedule import Plan, Schedule
from .core.state import State
from .core.tick import At, Cron, Every
from .core.transition import Reply
from .errors import (
    Aborted,
    ConfigError,
    HandlerRaised,
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
    ScheduleMissing,
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
from .flow import Flow, FlowProgress, Group, Node
from .hook import Happening
from .job import Completion, FailedJob, Job, Transaction, current_job
from .option import Dedup
from .queue import Queue
from .resource import Resource
from .schedule import Schedules
from .store import Store, register_store
from .store.contract import Cancelled, ChainPage, ChainRecord, Deleted, EventPage, JobPage, QueueInfo, SessionInfo
from .task import Call, Task
from .worker import Report, Worker

__version__ = "0.1.0"

__all__ = [
    "Aborted",
    "At",
    "Blocker",
    "Call",
    "Cancelled",
    "ChainPage",
    "ChainRecord",
    "ChainRef",
    "Codec",
    "Completion",
    "ConfigError",
    "Continued",
    "Counters",
    "Counts",
    "Cron",
    "Dedup",
    "Deleted",
    "ErrorRecord",
    "Event",
    "EventPage",
    "Every",
    "FailedJob",
    "Flow",
    "FlowProgress",
    "Group",
    "Handle",
    "HandlerRaised",
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
    "Node",
    "Outcome",
    "PayloadError",
    "Permanent",
    "Plan",
    "Policy",
    "PolicyConflict",
    "Progress",
    "Queue",
    "QueueInfo",
    "QueueSettings",
    "Rate",
    "Reply",
    "Report",
    "Resource",
    "Retention",
    "Retry",
    "Sandbox",
    "Schedule",
    "ScheduleMissing",
    "Schedules",
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
