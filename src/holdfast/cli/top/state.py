"""What is on the screen, and what was typed. It knows nothing of stores and terminals."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from .listing import RowKey

ViewName = Literal["queues", "workers", "failures", "jobs", "job"]
VIEWS: tuple[ViewName, ...] = ("queues", "workers", "failures", "jobs")
"""The views with a tab, in the order of their digits."""
STATES = (None, "waiting", "active", "scheduled", "blocked", "failed", "completed", "cancelled")
"""What a list of jobs may be limited to."""


@dataclass(frozen=True)
class JobRef:
    """A job that is shown; without a run, the one that answers for its id."""

    queue: str | None
    id: str
    run: int | None = None


@dataclass(frozen=True)
class ListedJobs:
    """Which jobs are listed."""

    queue: str | None = None
    worker: str | None = None
    """The id of a session: what it holds."""
    worker_name: str = ""
    state: str | None = None
    cursors: tuple[str, ...] = ()
    """Of the pages up to this one."""


@dataclass(frozen=True)
class Intent:
    """What a key asks for."""

    kind: Literal["pause", "resume", "requeue_queue", "requeue_group", "requeue_job", "cancel_job", "refresh", "quit"]
    queue: str = ""
    id: str = ""
    run: int = 0
    signature: str = ""
    question: str = ""
    """What is asked before it is done; empty: it is done at once."""


@dataclass
class Tab:
    """How one view is sorted, filtered and selected."""

    sort: int | None = None
    reverse: bool = False
    wanted: str = ""
    selected: RowKey | None = None


@dataclass
class TopState:
    """The screen."""

    view: ViewName = "queues"
    tabs: dict[str, Tab] = field(default_factory=dict)
    jobs: ListedJobs = field(default_factory=ListedJobs)
    job: JobRef | None = None
    came_from: ViewName = "queues"
    """The view that a job was opened from."""
    scroll: int = 0
    help: bool = False
    typing: Literal["filter", "open"] | None = None
    typed: str = ""
    confirm: Intent | None = None
    message: str = ""
    is_error: bool = False
    read_only: bool = False
    frozen: bool = False

    @property
    def tab(self) -> Tab:
        """The tab of the view on the screen."""
        return self.tabs.setdefault(self.view, Tab())

    def say(self, message: str, *, error: bool = False) -> None:
        """Put a message on the last line, until the next key."""
        self.message, self.is_error = message, error

    def show(self, view: ViewName) -> None:
        """Put another view on the screen."""
        self.view, self.scroll, self.message = view, 0, ""
