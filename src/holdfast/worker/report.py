"""What a worker did: counted, and told to whoever wants to hear."""

from __future__ import annotations

import logging

import msgspec

from ..core.state import State
from ..core.transition import Reply
from ..errors import StoreError
from ..hook import Happening, Hooks
from ..store.contract import Claimed, Lease, Session, Settled, Settlement
from .attempt import Attempt
from .story import ENDS, Story, story_of

log = logging.getLogger("holdfast")


class Report(msgspec.Struct, kw_only=True):
    """What a worker did."""

    started: int = 0
    completed: int = 0
    retried: int = 0
    failed: int = 0
    snoozed: int = 0
    released: int = 0
    cancelled: int = 0
    lost: int = 0
    """Attempts whose end did not count, because the lease was gone."""
    stuck: int = 0
    """Threads that did not return after their time-out, for which the worker ended (`on_stuck="exit"`)."""
    left: list[str] = []
    """Handlers that did not stop at the end, by queue and id: their jobs were handed back, and they may still run."""


_WORD = {"complete": "completed", "retry": "retried", "fail": "failed", "snooze": "snoozed", "release": "released"}
_STATE_WORD = {"failed": "failed", "cancelled": "cancelled"}


class Telling:
    """Counts what happens to jobs, and tells hooks."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self.report = Report()
        self.session: Session | None = None
        self._stories: dict[Lease, Story] = {}
        """What hooks will be told of attempts that have ended, and of which the store has not heard."""

    def _remember(self, of: Attempt | Claimed) -> None:
        """What hooks want to know of an end is kept, if there are any."""
        if self._hooks.wants_any(ENDS):
            story = story_of(of) if isinstance(of, Attempt) else Story(of)
            self._stories[story.claimed.lease] = story

    def _lose(self, lease: Lease, why: str) -> None:
        """It is counted and told that the end of an attempt does not count."""
        self.report.lost += 1
        story = self._stories.pop(lease, None)
        if self._hooks.wanted("lost"):
            self._tell("lost", lease, None, why, story)

    def _count(self, entry: Settlement, settled: Settled) -> None:
        if settled.state is State.COMPLETED and not self._hooks.wanted("complete"):
            self.report.completed += 1
            if self._stories:
                self._stories.pop(entry.lease, None)
            return
        name = type(entry).__struct_config__.tag
        if settled.reply is not Reply.OK:
            log.warning("%s of %s/%s came too late: %s", name, entry.lease.queue, entry.lease.id, settled.reply)
            self._lose(entry.lease, f"its {name} came too late: {settled.reply}")
            return
        story = self._stories.pop(entry.lease, None)
        state = str(settled.state)
        word = _STATE_WORD.get(state) or _WORD[str(name)]
        setattr(self.report, word, getattr(self.report, word) + 1)
        transition = {"failed": "fail", "cancelled": "cancel"}.get(state, str(name))
        if self._hooks.wanted(transition):
            error = getattr(entry, "error", None)
            detail = f"{error.type}: {error.message}" if error else ""
            self._tell(transition, entry.lease, state, detail, story, entry)

    def _tell(
        self, name: str, lease: Lease, state: str | None, detail: str = "", story: Story | None = None,
        entry: Settlement | None = None,
    ) -> None:  # fmt: skip
        worker = self.session.id if self.session else None
        known = story.fields(name, entry) if story is not None else {}
        self._hooks.tell(
            Happening(
                name=name, queue=lease.queue, id=lease.id, run=lease.run, attempt=lease.attempt, state=state,
                worker=worker, detail=detail, **known,
            )
        )  # fmt: skip

    def warn_of_lateness(self) -> None:
        """It is known that the lease was over before the worker was heard: it still counts, as nobody had noticed."""
        if self.session is not None:
            log.warning(
                "worker_late: %s (queues %s) was heard after its lease of %g s was over; nobody had taken its jobs",
                self.session.name, ", ".join(self.session.queues), self.session.lease_ms / 1000,
            )  # fmt: skip

    def trouble(self, error: Exception) -> None:
        """It is known that the store did not answer."""
        known = isinstance(error, StoreError)
        log.warning("the store did not answer, trying again: %s", error, exc_info=None if known else error)
        self._hooks.tell(Happening(name="worker_error", error=error, detail=str(error)))
