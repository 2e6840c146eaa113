"""What a queue holds and what its limits allow."""

from __future__ import annotations

from ...core.limit import Bucket, QueueSettings, next_token_ms, refill
from ...core.policy import Retry
from ...core.state import State
from .run import ModelRun, ModelSuccessor


class ModelQueue:
    """The state of one queue, and looks at it."""

    def __init__(self, settings: QueueSettings, retry: Retry) -> None:
        self.settings = settings
        self.retry = retry
        self.runs: dict[int, ModelRun] = {}
        self.successors: dict[str, ModelSuccessor] = {}
        self.key_limits: dict[str, int] = {}
        self.key_buckets: dict[str, Bucket] = {}
        self.bucket: Bucket | None = None
        self.newest = 0
        self.turn = 0
        self.served: dict[str | None, int] = {}
        self.ready_since: dict[str | None, int] = {}

    def holder(self, id: str, now: int) -> ModelRun | None:
        """Return the run that holds an id, and let go of one whose time is over."""
        for run in self.runs.values():
            if run.id == id and run.held:
                if run.free_at is not None and run.free_at <= now:
                    run.held = False
                    return None
                return run
        return None

    def kept(self, now: int) -> list[ModelRun]:
        """Return every run that can be seen."""
        return [run for run in self.runs.values() if run.expires_at is None or run.expires_at > now]

    def answering(self, id: str, now: int) -> ModelRun | None:
        """Return the run that answers for an id, or else its latest that is kept."""
        found = [run for run in self.kept(now) if run.id == id]
        return max(found, key=lambda run: (run.held, run.run), default=None)

    def active(self, key: str | None = None) -> list[ModelRun]:
        """Return what runs, of a key or of all."""
        return [run for run in self.runs.values() if run.state is State.ACTIVE and key in (None, run.key)]

    def waiting(self, key: str | None) -> list[ModelRun]:
        """Return what waits under a key, in order, suspects aside."""
        found = [run for run in self.runs.values() if run.state is State.WAITING and run.key == key]
        return sorted((run for run in found if run.company is None), key=lambda run: run.place)

    def suspects(self) -> list[ModelRun]:
        """Return the suspects that wait, in order, of all keys."""
        found = [run for run in self.runs.values() if run.state is State.WAITING and run.company is not None]
        return sorted(found, key=lambda run: run.place)

    def keys(self) -> set[str]:
        """Return every key of an unfinished job."""
        return {run.key for run in self.runs.values() if run.key is not None and not run.state.finished}

    def has_room(self, key: str | None) -> bool:
        """True when the limits on running jobs let one more of this key start."""
        if key is None:
            return True
        declared = self.settings.key_limits.get(key, self.settings.key_concurrency)
        limit = self.key_limits.get(key, declared)
        return limit is None or len(self.active(key)) < limit

    def key_token_at(self, key: str | None, now: int) -> int:
        """Return when a key has a token."""
        rate = self.settings.key_rate
        if key is None or rate is None:
            return now
        return next_token_ms(rate, refill(rate, self.key_buckets.get(key), now))

    def ready_keys(self, now: int) -> frozenset[str]:
        """Return the keys that have a waiting job, free capacity and a token."""
        return frozenset(
            key
            for key in self.keys()
            if self.waiting(key) and self.has_room(key) and self.key_token_at(key, now) <= now
        )

    def claimable(self, now: int) -> bool:
        """True when a claim must give something now, suspects aside."""
        return self._queue_room() > 0 and self._queue_token_at(now) <= now and bool(self.ready_groups(now))

    def next_at(self, now: int, held: int) -> int | None:
        """Return when something next becomes claimable for a session that holds so many, if nothing else happens.

        A suspect's company is asked when its time has come: whoever holds anything is told of it then.
        """
        if self.settings.paused or self._queue_room() <= 0:
            return None
        times = [
            max(run.run_at, self.key_token_at(run.key, now), self._queue_token_at(now), now)
            for run in self.runs.values()
            if run.state in (State.WAITING, State.SCHEDULED)
            and self.has_room(run.key)
            and (run.company is None or not held)
        ]
        return min(times, default=None)

    def ready_groups(self, now: int) -> set[str | None]:
        """Return the keys that are ready, and `None` when a job without a key waits."""
        return {*self.ready_keys(now), *([None] if self.waiting(None) else [])}

    def note_turns(self, now: int) -> None:
        """Remember since which turn each group has been ready without a break. Call it after every step."""
        ready = self.ready_groups(now)
        self.ready_since = {group: self.ready_since.get(group, self.turn) for group in ready}

    def _queue_room(self) -> float:
        limit = self.settings.concurrency
        return float("inf") if limit is None else limit - len(self.active())

    def _queue_token_at(self, now: int) -> int:
        rate = self.settings.rate
        return now if rate is None else next_token_ms(rate, refill(rate, self.bucket, now))

    def configure(self, settings: QueueSettings) -> None:
        """Limits are changed; the buckets of a rate that is no more are gone."""
        self.settings = settings
        if settings.key_rate is None:
            self.key_buckets.clear()
