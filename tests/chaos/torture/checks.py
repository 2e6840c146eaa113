"""The checks: each yields a sentence for every job of which something was promised that was not held."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from .book import Attempt, Book, Log
from .plan import AT_ONCE, PER_KEY

Check = Callable[[Book, Log], Iterator[str]]
OWN = "torture.app.Trouble"
FAIL = {"doomed"}
EITHER = {"drop"}


def nothing_acknowledged_is_lost(book: Book, log: Log) -> Iterator[str]:
    """Whatever was acknowledged is in the log, and has ended."""
    known = defaultdict(list)
    for queue, id, run in log.runs:
        known[queue, id].append(run)
    for (queue, id), (task, _, run) in book.acknowledged.items():
        runs = known.get((queue, id))
        if runs is None:
            yield f"{queue}/{id} ({task}) was acknowledged, and the log does not know it"
        elif run and run not in runs and task != "latest":  # a successor may merge with the run before it
            yield f"{queue}/{id} run {run} ({task}) was acknowledged, and the log knows only {runs}"


def every_run_has_one_end(book: Book, log: Log) -> Iterator[str]:
    """Each run that was enqueued ended once: in one terminal record."""
    for (queue, id, run), seen in log.runs.items():
        if seen.ends != 1:
            yield f"{queue}/{id} run {run} ({seen.task}) ended {seen.ends} times; its state is {seen.state}"
        if seen.enqueues != 1:
            yield f"{queue}/{id} run {run} ({seen.task}) was enqueued {seen.enqueues} times"


def every_run_ends_as_it_should(book: Book, log: Log) -> Iterator[str]:
    """No fault makes a good job fail, or lets a bad one pass."""
    for (queue, id, run), seen in log.runs.items():
        wanted = "failed" if seen.task in FAIL else "completed"
        if seen.ended not in (wanted, *(("cancelled",) if seen.task in EITHER else ())) and seen.ends:
            yield f"{queue}/{id} run {run} ({seen.task}) is {seen.ended}, not {wanted}; errors {seen.errors}"


def what_completed_was_done(book: Book, log: Log) -> Iterator[str]:
    """A run is completed only if a handler of it came to its end."""
    for (queue, id, run), seen in log.runs.items():
        if seen.ended == "completed" and not any(
            a.run == run and a.end == "ok" for a in book.attempts.get((queue, id), ())
        ):
            yield f"{queue}/{id} run {run} ({seen.task}) is completed, and no handler says that it finished it"


def only_handlers_cost_failures(book: Book, log: Log) -> Iterator[str]:
    """Trouble of the worker and of the store costs a job no failure. (Memory that a handler lacks is its own.)"""
    for (queue, id, run), seen in log.runs.items():
        if strange := [error for error in seen.errors or () if error not in (OWN, "MemoryError")]:
            yield f"{queue}/{id} run {run} ({seen.task}) was charged with {strange}, which its handler did not raise"


def nobody_overlaps(book: Book, log: Log) -> Iterator[str]:
    """While the worker of an attempt is heard, no other attempt of the same id begins."""
    for (queue, id), attempts in book.attempts.items():
        if len(attempts) > 1:
            yield from _overlaps(book, f"{queue}/{id}", attempts)


def _overlaps(book: Book, name: str, attempts: Iterable[Attempt]) -> Iterator[str]:
    busy, holder = 0, None
    for attempt in sorted(attempts, key=lambda attempt: attempt.began):
        until = book.held_until(attempt)
        if until < attempt.began:
            continue  # its worker had lost its lease before: frozen between a claim and its handler
        if attempt.began < busy and holder is not None:
            yield (
                f"{name} run {attempt.run} attempt {attempt.attempt} in worker {attempt.worker} began "
                f"{(busy - attempt.began) / 1000:.0f} ms before run {holder.run} attempt {holder.attempt} in worker "
                f"{holder.worker} was over, or unheard for a lease"
            )
        if until > busy:
            busy, holder = until, attempt


def limits_hold(book: Book, log: Log) -> Iterator[str]:
    """Never more at once than the limits of queue and key allow."""
    lanes: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for (queue, id), attempt in book.each():
        if queue == "keyed" and (until := book.held_until(attempt)) > attempt.began:
            for lane in ("", attempt.word):
                lanes[lane] += [(attempt.began, 1, id), (until, -1, id)]
    for lane, steps in lanes.items():
        limit, running = (PER_KEY if lane else AT_ONCE), set[str]()
        for at, step, id in sorted(steps):
            running = running | {id} if step > 0 else running - {id}
            if len(running) > limit:
                yield f"{sorted(running)} ran at once at {at}, and {lane or 'the queue'} allows {limit}"


def one_at_a_time_by_dedup_key(book: Book, log: Log) -> Iterator[str]:
    """Jobs with one dedup key never run at once, for there is one of them at a time."""
    by_key: dict[str, list[Attempt]] = defaultdict(list)
    for (queue, _), attempt in book.each():
        if queue == "once":
            by_key[attempt.word].append(attempt)
    for key, attempts in by_key.items():
        yield from _overlaps(book, f"dedup key {key}", attempts)


def retries_count_what_they_should(book: Book, log: Log) -> Iterator[str]:
    """A job that fails so many times has so many failures, whatever else happened to it."""
    for (queue, id, run), seen in log.runs.items():
        if seen.task == "flaky" and (known := book.acknowledged.get((queue, id))) and seen.counters is not None:
            others = sum(error == "MemoryError" for error in seen.errors or ())
            if seen.counters.failures != int(known[1]) + others:
                yield f"{queue}/{id} run {run} has {seen.counters.failures} failures, and its handler raised {known[1]}"


def fail_handlers_run(book: Book, log: Log) -> Iterator[str]:
    """Every job that failed for good, and none other, has its fail handler run."""
    failed = {id for (_, id, _), seen in log.runs.items() if seen.task == "doomed" and seen.ended == "failed"}
    rescued = {attempt.word for (queue, _), attempt in book.each() if queue == "rescue"}
    for id in failed ^ rescued:
        yield f"work/{id} {'failed, and nobody was told' if id in failed else 'did not fail, and its fail handler ran'}"


def chains_go_to_their_end(book: Book, log: Log) -> Iterator[str]:
    """Each chain that was acknowledged has run its three jobs."""
    seen: dict[str, set[str]] = defaultdict(set)
    for (queue, id), attempt in book.each():
        if queue in ("chain_a", "chain_b"):
            seen[attempt.word].add(f"{queue}/{id}")
    for (queue, id), (task, *_) in book.acknowledged.items():
        if task == "first" and len(seen[id]) != 3:
            yield f"the chain of {queue}/{id} has run {sorted(seen[id])}, and should have three jobs"


def blockers_come_first(book: Book, log: Log) -> Iterator[str]:
    """A job with blockers begins after all of them have ended."""
    for (queue, id), attempt in book.each():
        for blocker in attempt.word.split(",") if queue == "join" else ():
            done = [each.last for each in book.attempts.get(("plain", blocker), ()) if each.end == "ok"]
            if not done or min(done) > attempt.began:
                yield f"{queue}/{id} began before plain/{blocker}, for which it should wait, had ended"


def the_last_word_runs(book: Book, log: Log) -> Iterator[str]:
    """Of all dispatches of one id, the last that was acknowledged has run, or a later one."""
    for (queue, id), (task, word, _) in book.acknowledged.items():
        if task == "latest":
            ran = max((int(a.word) for a in book.attempts.get((queue, id), ()) if a.end == "ok"), default=0)
            if ran < int(word):
                yield f"{queue}/{id} was updated to {word}, and the last that ran is {ran}"


def the_cancelled_never_begin(book: Book, log: Log) -> Iterator[str]:
    """What was cancelled while it waited does not begin afterwards."""
    for (queue, id, run), at in book.cancelled.items():
        if any(attempt.run == run and attempt.began > at for attempt in book.attempts.get((queue, id), ())):
            yield f"{queue}/{id} run {run} began after its cancel was acknowledged"
        if (seen := log.runs.get((queue, id, run))) and seen.ended != "cancelled":
            yield f"{queue}/{id} run {run} is {seen.ended}, and its cancel was acknowledged"


def ticks_fire_once(book: Book, log: Log) -> Iterator[str]:
    """Each tick of the schedule has one job, and that has one run."""
    runs: dict[str, int] = defaultdict(int)
    for queue, id, _ in log.runs:
        runs[id] += queue == "tick"
    for id, count in runs.items():
        if count > 1:
            yield f"tick/{id} has {count} runs"


def every_waiter_is_answered(book: Book, log: Log) -> Iterator[str]:
    """Whoever waited for a result has got it, and the right one."""
    for queue, id, run in book.waits:
        answer = book.answers.get((queue, id, run))
        if answer != "ok":
            yield f"whoever waits for {queue}/{id} run {run} got {answer or 'no answer'}"


CHECKS: tuple[Check, ...] = (
    nothing_acknowledged_is_lost, every_run_has_one_end, every_run_ends_as_it_should, what_completed_was_done,
    only_handlers_cost_failures, nobody_overlaps, limits_hold, one_at_a_time_by_dedup_key,
    retries_count_what_they_should, fail_handlers_run, chains_go_to_their_end, blockers_come_first,
    the_last_word_runs, the_cancelled_never_begin, ticks_fire_once, every_waiter_is_answered,
)  # fmt: skip
