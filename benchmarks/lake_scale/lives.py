"""Lives of jobs as events: enqueued, claimed, retried, stalled, finished, or left open. Numbers only, no texts yet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .world import BURST, DELAYED, LONGEST_DELAY_MS, ORIGIN_MS, Numbers, World

Block = dict[str, Numbers]
TRANSITIONS = ("enqueue", "cancel", "claim", "complete", "retry", "fail", "reap", "release")
ENQUEUE, CANCEL, CLAIM, COMPLETE, RETRY, FAIL, REAP, RELEASE = range(len(TRANSITIONS))
STATES = ("waiting", "scheduled", "active", "completed", "failed", "cancelled")
WAITING, SCHEDULED, ACTIVE, COMPLETED, FAILED, CANCELLED = range(len(STATES))
CAUSES = ("failure", "timeout", "stall", "permanent", "release")
FAILURE, TIMEOUT, STALL, PERMANENT, EXHAUSTED = range(len(CAUSES))
ATTEMPTS = 4
HOSTS = 400
NONE = -1
"""What stands for null."""
ENDS = np.array([0.94, 0.97, 0.98, 0.985, 0.99])
"""Shares of attempts that complete; raise; run out of time; stall; fail for good. The others are released."""
IDLE, STEP, LATE = 0.001, 1_048_576, 0.001
"""The share of jobs that nobody ever claims; sequences in a millisecond; the share of events that are seen late."""


@dataclass
class Runs:
    """The runs whose events are made, as they stand: each attempt changes them."""

    job: Numbers
    due: Numbers
    run_at: Numbers
    counters: dict[str, Numbers]

    def chosen(self, those: Numbers) -> Runs:
        """Return some of them."""
        counters = {name: values[those] for name, values in self.counters.items()}
        return Runs(self.job[those], self.due[those], self.run_at[those], counters)


def events_of(world: World, job: Numbers) -> Block:
    """Return every event of these jobs, in no order. `seen` is when a reader of the log can see it."""
    blocks = list(_blocks(world, job))
    found = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
    tie = (found["job"] % 65536) * 16 + found["step"]
    found["sequence"] = (found["at"] - ORIGIN_MS) * STEP + tie
    late = world.uniform(found["sequence"], 20) < LATE
    found["seen"] = found["at"] + late * world.below(found["sequence"], 21, 3_600_000)
    return found


def _blocks(world: World, job: Numbers) -> Iterator[Block]:
    burst = job // BURST
    enqueued = ORIGIN_MS + ((burst + world.uniform(burst, 1)) * world.gap_ms).astype(np.int64)
    enqueued += world.below(job, 2, 30_000)
    ahead = (burst % DELAYED == 0) & (world.uniform(job, 3) < 0.9)
    run_at = enqueued + ahead * (world.below(job, 4, LONGEST_DELAY_MS - 60_000) + 1)
    nothing = np.zeros_like(job)
    names = ("failures", "stalls", "timeouts", "releases")
    runs = Runs(job, run_at, run_at, dict.fromkeys(names, nothing))
    yield _event(runs, enqueued, 0, 0, ENQUEUE, np.where(ahead, SCHEDULED, WAITING))
    fate = world.uniform(job, 5)
    dropped = np.flatnonzero((fate > 1 - 3 * IDLE) & (fate <= 1 - IDLE))
    gone = runs.chosen(dropped)
    yield _event(gone, gone.due + 1 + world.below(gone.job, 6, 5000), 0, 1, CANCEL, CANCELLED)
    runs = runs.chosen(np.flatnonzero(fate <= 1 - 3 * IDLE))
    for attempt in range(1, ATTEMPTS + 1):
        claim, end, runs = _attempt(world, runs, attempt)
        yield claim
        yield end


def _attempt(world: World, runs: Runs, attempt: int) -> tuple[Block, Block, Runs]:
    """Return the claim and the end of an attempt of each run, and the runs that are tried again."""
    salt = 30 + attempt * 10
    wait = 1 + np.minimum(-np.log1p(-world.uniform(runs.job, salt)) * 8000, 600_000).astype(np.int64)
    ran = 1 + np.minimum(np.exp(3 + 8 * world.uniform(runs.job, salt + 1) ** 2), 1_200_000).astype(np.int64)
    claimed, ended = runs.due + wait, runs.due + wait + ran
    queue = queue_of(world, runs.job)
    worker = (queue * 4 + world.below(runs.job, salt + 2, 4)) % HOSTS + (claimed // 86_400_000) * HOSTS
    claim = _event(runs, claimed, attempt, attempt * 2 - 1, CLAIM, ACTIVE, worker=worker, wait_ms=wait)
    way = np.searchsorted(ENDS, world.uniform(runs.job, salt + 3), side="right")
    last = attempt == ATTEMPTS
    cause = np.choose(way, [NONE, FAILURE, TIMEOUT, STALL, PERMANENT, NONE])
    over = (way == 4) | (last & (way > 0))
    transition = np.where(over, FAIL, np.choose(way, [COMPLETE, RETRY, RETRY, REAP, FAIL, RELEASE]))
    state = np.where(over, FAILED, np.choose(way, [COMPLETED, SCHEDULED, SCHEDULED, WAITING, FAILED, WAITING]))
    back_off = np.isin(way, (1, 2)) & ~over
    due = ended + back_off * (10_000 << attempt)
    counted = {"failures": np.isin(way, (1, 4)), "timeouts": way == 2, "stalls": way == 3, "releases": way == 5}
    counters = {name: values + counted[name] for name, values in runs.counters.items()}
    after = Runs(runs.job, due, np.where(back_off, due, runs.run_at), counters)
    error = np.where((way == 0) | (way == 5), NONE, world.below(runs.job, salt + 4, 5) * 4 + np.maximum(cause, 0))
    told = np.where(way == 5, np.where(over, EXHAUSTED, NONE), np.where(transition == REAP, NONE, cause))
    end = _event(
        after, ended, attempt, attempt * 2, transition, state, worker=worker, run_ms=ran, cause=told, error=error
    )  # fmt: skip
    return claim, end, after.chosen(np.flatnonzero((way > 0) & ~over))


def _event(
    runs: Runs,
    at: Numbers,
    attempt: int,
    step: int,
    transition: Numbers | int,
    state: Numbers | int,
    **other: Numbers,
) -> Block:
    def whole(value: Numbers | int) -> Numbers:
        return np.broadcast_to(np.asarray(value, np.int64), runs.job.shape)

    named: dict[str, Numbers | int] = dict.fromkeys(("worker", "wait_ms", "run_ms", "cause", "error"), NONE)
    named |= {"attempt": attempt, "step": step, "transition": transition, "state": state, **other}
    given = {name: whole(value) for name, value in named.items()}
    return {"job": runs.job, "at": at, "run_at": runs.run_at, **runs.counters, **given}


def queue_of(world: World, job: Numbers) -> Numbers:
    """Return the number of each job's queue: few of them are busy."""
    return (world.uniform(job // BURST, 7) ** 3 * world.queues).astype(np.int64)


def tenant_of(world: World, job: Numbers) -> Numbers:
    """Return the number of each job's tenant, or that there is none: a burst has four tenants at most."""
    first = (world.uniform(job // BURST, 8) ** 2 * world.tenants).astype(np.int64)
    return np.where(world.below(job // BURST, 9, 10) == 0, NONE, (first + world.below(job, 10, 4) * 37) % world.tenants)
