"""Holdfast: a job queue for Python that never lets go of a job."""

from .core.version import VERSION

TYPE_CHECKING = False  # what type checkers take for true, without the import of `typing`

__version__ = VERSION

if TYPE_CHECKING:  # the one list of public names: type checkers import them, and the code below reads these lines
    from .app.app import Holdfast as Holdfast
    from .app.bulk import Call as Call
    from .app.bulk import EnqueueCounts as EnqueueCounts
    from .app.flow import Flow as Flow
    from .app.flow import FlowProgress as FlowProgress
    from .app.flow import Group as Group
    from .app.flow import Node as Node
    from .app.hooks import HookEvent as HookEvent
    from .app.queue import Queue as Queue
    from .app.resource import Depends as Depends
    from .app.resource import Resource as Resource
    from .app.task import Task as Task
    from .client import Handle as Handle
    from .client.options import Dedup as Dedup
    from .client.outgoing import OutgoingJob as OutgoingJob
    from .codec import Codec as Codec
    from .core.chain import ChainRef as ChainRef
    from .core.declaration import View as View
    from .core.event import Event as Event
    from .core.job import ErrorRecord as ErrorRecord
    from .core.job import JobRecord as JobRecord
    from .core.job import Progress as Progress
    from .core.limit import QueueSettings as QueueSettings
    from .core.limit import Rate as Rate
    from .core.limit import Retention as Retention
    from .core.policy import Counters as Counters
    from .core.policy import Policy as Policy
    from .core.policy import Retry as Retry
    from .core.sandbox import Sandbox as Sandbox
    from .core.schedule import Plan as Plan
    from .core.schedule import Schedule as Schedule
    from .core.state import State as State
    from .core.tick import At as At
    from .core.tick import Cron as Cron
    from .core.tick import Every as Every
    from .core.transition import Reply as Reply
    from .errors import Aborted as Aborted
    from .errors import ConfigError as ConfigError
    from .errors import HandlerRaised as HandlerRaised
    from .errors import HoldfastError as HoldfastError
    from .errors import JobCancelled as JobCancelled
    from .errors import JobError as JobError
    from .errors import JobFailed as JobFailed
    from .errors import JobMissing as JobMissing
    from .errors import JobTimeout as JobTimeout
    from .errors import LakeBusy as LakeBusy
    from .errors import LakeError as LakeError
    from .errors import LakeTooNew as LakeTooNew
    from .errors import LeaseLost as LeaseLost
    from .errors import LogGap as LogGap
    from .errors import MissingExtra as MissingExtra
    from .errors import Outcome as Outcome
    from .errors import PayloadError as PayloadError
    from .errors import PayloadTooLarge as PayloadTooLarge
    from .errors import PendingFull as PendingFull
    from .errors import Permanent as Permanent
    from .errors import PolicyConflict as PolicyConflict
    from .errors import ResultInvalid as ResultInvalid
    from .errors import ResultTooLarge as ResultTooLarge
    from .errors import RetryAt as RetryAt
    from .errors import ScheduleMissing as ScheduleMissing
    from .errors import Snooze as Snooze
    from .errors import StoreBusy as StoreBusy
    from .errors import StoreClosed as StoreClosed
    from .errors import StoreCorrupt as StoreCorrupt
    from .errors import StoreError as StoreError
    from .errors import StoreFull as StoreFull
    from .errors import StoreReadOnly as StoreReadOnly
    from .errors import StoreTooNew as StoreTooNew
    from .errors import UnknownScheme as UnknownScheme
    from .handler.abort import Signal as Signal
    from .handler.continuation import Blocker as Blocker
    from .handler.continuation import Continued as Continued
    from .handler.job import Completion as Completion
    from .handler.job import FailedJob as FailedJob
    from .handler.job import Job as Job
    from .handler.job import Transaction as Transaction
    from .handler.job import current_job as current_job
    from .handler.middleware import Middleware as Middleware
    from .handler.middleware import Next as Next
    from .schedule import Schedules as Schedules
    from .store import Store as Store
    from .store import register_store as register_store
    from .store.contract import Abort as Abort
    from .store.contract import CancelResult as CancelResult
    from .store.contract import ChainPage as ChainPage
    from .store.contract import ChainRecord as ChainRecord
    from .store.contract import DeleteResult as DeleteResult
    from .store.contract import Dependants as Dependants
    from .store.contract import EventPage as EventPage
    from .store.contract import JobCount as JobCount
    from .store.contract import JobPage as JobPage
    from .store.contract import KeyInfo as KeyInfo
    from .store.contract import LogMeasure as LogMeasure
    from .store.contract import QueueInfo as QueueInfo
    from .store.contract import QueueMeasure as QueueMeasure
    from .store.contract import SessionInfo as SessionInfo
    from .store.contract import StoreMeasure as StoreMeasure
    from .supervisor import ProcessesReport as ProcessesReport
    from .supervisor import WorkerProcesses as WorkerProcesses
    from .worker import Maintained as Maintained
    from .worker import Maintainer as Maintainer
    from .worker import Report as Report
    from .worker import Worker as Worker

else:
    _LINES = [line.split() for line in __spec__.loader.get_data(__file__).decode().splitlines()]
    _HOMES = {words[3]: words[1] for words in _LINES if words[:1] == ["from"] and "as" in words}
    __all__ = sorted(_HOMES)

    def __getattr__(name: str) -> object:
        """Import a public name when it is first asked for: a process, or `holdfast --help`, needs few of them."""
        from importlib import import_module

        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(_HOMES[name], __name__), name)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
