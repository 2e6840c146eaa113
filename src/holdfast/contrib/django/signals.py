"""Signals of Django for what happens to jobs: `@receiver(job_failed, sender=send)`.

Nothing is told that no receiver asked for. Receivers run where Django allows queries, in a thread, besides the worker's
own work: they may be late, and what they raise is logged and harms nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.dispatch import Signal

from ...app.hooks import HookEvent
from .connections import clean_connections

if TYPE_CHECKING:
    from ...app.app import Holdfast

_signals: list[JobSignal] = []


class JobSignal(Signal):
    """A signal for one transition. Receivers get `sender` (the task, where it is known), `alias` and `event`."""

    def __init__(self, transition: str) -> None:
        super().__init__()
        self.transition = transition
        self._heard: set[str] = set()
        """Aliases whose apps tell of it."""
        _signals.append(self)

    def connect(
        self,
        receiver: Callable[..., object],
        sender: object = None,
        weak: bool = True,
        dispatch_uid: Hashable | None = None,
    ) -> None:
        """Connect a receiver, and have the apps tell of this transition from now on."""
        from .aliases import made

        super().connect(receiver, sender, weak, dispatch_uid)
        for alias, app in made().items():
            self.listen(alias, app)

    def listen(self, alias: str, app: Holdfast) -> None:
        """Hear of the transition in an app, if there is a receiver."""
        if self.has_listeners() and alias not in self._heard:
            self._heard.add(alias)
            app.hooks.add(self.transition, lambda event: sync_to_async(self.tell)(alias, app, event))

    def has_listeners(self, sender: Any = None) -> bool:
        """Return whether anybody wants to hear of it, from this sender or, without one, from any."""
        return bool(self.receivers) if sender is None else bool(super().has_listeners(sender))

    def tell(self, alias: str, app: Holdfast, event: HookEvent) -> None:
        """Tell every receiver; log what one raises."""
        sender = app.registry.tasks.get(event.task) if event.task is not None else None
        clean_connections()
        try:
            self.send_robust(sender=sender, alias=alias, event=event)
        finally:
            clean_connections()


job_enqueued = JobSignal("enqueue")
job_started = JobSignal("claim")
job_completed = JobSignal("complete")
job_retried = JobSignal("retry")
job_failed = JobSignal("fail")
job_snoozed = JobSignal("snooze")
job_released = JobSignal("release")
job_cancelled = JobSignal("cancel")


def listen_to(alias: str, app: Holdfast) -> None:
    """Have a new app tell of whatever has receivers already."""
    for signal in _signals:
        signal.listen(alias, app)
