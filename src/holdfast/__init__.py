"""Holdfast: a job queue for Python that never lets go of a job."""

TYPE_CHECKING = False  # what type checkers take for true, without the import of `typing`

if TYPE_CHECKING:
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
        PayloadTooLarge,
        Permanent,
        PolicyConflict,
        ResultTooLarge,
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
    "PayloadTooLarge",
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
    "ResultTooLarge",
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

if not TYPE_CHECKING:  # or a name that is not there would pass for any
    _HOMES = {  # the imports above, once more for those who run this: a test compares them
        ".abort": "Signal",
        ".app": "Holdfast",
        ".bulk": "Counts",
        ".client": "Handle",
        ".codec": "Codec",
        ".continuation": "Blocker Continued",
        ".core.chain": "ChainRef",
        ".core.event": "Event",
        ".core.job": "ErrorRecord JobRecord Progress",
        ".core.limit": "QueueSettings Rate Retention",
        ".core.policy": "Counters Policy Retry",
        ".core.sandbox": "Sandbox",
        ".core.schedule": "Plan Schedule",
        ".core.state": "State",
        ".core.tick": "At Cron Every",
        ".core.transition": "Reply",
        ".errors": (
            "Aborted ConfigError HandlerRaised HoldfastError JobCancelled JobError JobFailed JobMissing "
            "JobTimeout LakeBusy LeaseLost LogGap MissingExtra Outcome PayloadError PayloadTooLarge Permanent "
            "PolicyConflict ResultTooLarge ScheduleMissing Snooze StoreBusy StoreClosed StoreCorrupt StoreError "
            "StoreFull StoreReadOnly StoreTooNew UnknownScheme"
        ),
        ".flow": "Flow FlowProgress Group Node",
        ".hook": "Happening",
        ".job": "Completion FailedJob Job Transaction current_job",
        ".option": "Dedup",
        ".queue": "Queue",
        ".resource": "Resource",
        ".schedule": "Schedules",
        ".store": "Store register_store",
        ".store.contract": "Cancelled ChainPage ChainRecord Deleted EventPage JobPage QueueInfo SessionInfo",
        ".task": "Call Task",
        ".worker": "Report Worker",
    }
    _HOME = {name: home for home, names in _HOMES.items() for name in names.split()}

    def __getattr__(name: str) -> object:
        """Import a public name when it is first asked for: a process, or `holdfast --help`, needs few of them."""
        from importlib import import_module

        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(_HOME[name], __name__), name)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
