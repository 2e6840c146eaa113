"""The ledger: what was asked for, what the handlers wrote down, and what the store says, held against each other.

Three witnesses, none of which can see the others' books: the producer (`Told`), the handlers (`note.py`) and the
store. Every check can fail; `audit` reads everything again from the folder, so that anyone can tamper and see.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from urllib.parse import quote

import msgspec

from ..app import Holdfast
from ..core.event import Event
from ..core.job import JobRecord
from ..core.state import FINISHED, State
from ..errors import ConfigError
from .note import Note, read_notes

FILE = "told.json"
Name = tuple[str, str]
At = tuple[str, str, int]
ENDS = {"complete": "end", "retry": "raise", "fail": "raise"}
"""Which word of a handler goes with which transition of the store."""


class Told(msgspec.Struct):
    """What the producer knows: what it asked for and how it was answered, and whom it killed."""

    asked: list[Name] = []
    """(queue, id) of every dispatch, repeats included."""
    answers: dict[str, int] = {}
    cents: int = 0
    """The sum of all orders, each counted once."""
    report: str = ""
    """The id of the deduplicated report."""
    held: list[At] = []
    """The attempts that the killed worker held when it died."""
    killed: str = ""
    """The killed worker's session."""
    exits: dict[str, int | None] = {}
    """The exit codes of the workers that were asked to stop."""

    def ask(self, queue: str, id: str, status: str) -> None:
        """One dispatch and its answer are remembered."""
        self.asked.append((queue, id))
        self.answers[status] = self.answers.get(status, 0) + 1

    def save(self, folder: Path) -> None:
        """The folder holds the producer's book."""
        (folder / FILE).write_bytes(msgspec.json.encode(self))


class Books(msgspec.Struct):
    """All three books of one demo."""

    told: Told
    notes: list[Note]
    jobs: list[JobRecord]
    events: list[Event]


class Check(msgspec.Struct, frozen=True):
    """One line of the ledger."""

    name: str
    holds: bool
    told: str


async def read_books(folder: Path) -> Books:
    """Return what the three witnesses left in a folder."""
    if not (folder / FILE).exists():
        raise ConfigError(f"{folder} holds no ledger: no demo ran to its end there")
    told = msgspec.json.decode((folder / FILE).read_bytes(), type=Told)
    async with Holdfast(f"sqlite:///{quote(str(folder / 'shop.db'))}") as app:
        jobs: list[JobRecord] = []
        page = await app.jobs(limit=1000)
        jobs += page.jobs
        while page.cursor:
            page = await app.jobs(limit=1000, cursor=page.cursor)
            jobs += page.jobs
        events = [event async for event in app.events()]
    return Books(told, read_notes(folder), jobs, events)


async def audit(folder: Path) -> list[Check]:
    """Return every check of the demo that ran in a folder."""
    return check(await read_books(folder))


def check(books: Books) -> list[Check]:
    """Hold the three books against each other."""
    return [each(books) for each in CHECKS]


def _enqueued(books: Books) -> Check:
    told, asked = books.told, len(books.told.asked)
    new = told.answers.get("queued", 0)
    repeats = told.answers.get("duplicate", 0) + told.answers.get("completed", 0)
    holds = asked == new + repeats and new == len(set(told.asked))
    return Check("dispatched", holds, f"{asked:,} dispatches = {new:,} enqueued + {repeats:,} repeats of a known id")


def _accounted(books: Books) -> Check:
    states = Counter(job.state for job in books.jobs)
    new = books.told.answers.get("queued", 0)
    over = {state: states[state] for state in (State.COMPLETED, State.FAILED, State.CANCELLED)}
    left = len(books.jobs) - sum(over.values())
    told = " + ".join(f"{count:,} {state}" for state, count in over.items())
    unfinished = f", and {left:,} not finished" if left else ""
    return Check("accounted for", new == sum(over.values()) and not left, f"{new:,} enqueued = {told}{unfinished}")


def _nothing_lost(books: Books) -> Check:
    asked = set(books.told.asked)
    kept = {(job.queue, job.id) for job in books.jobs if job.state in FINISHED}
    lost, strange = asked - kept, kept - asked
    told = f"{len(lost)} lost, {len(strange)} that nobody asked for" + _some(lost | strange)
    return Check("nothing lost", not lost and not strange and len(kept) == len(books.jobs), told)


def _attempts(books: Books) -> Check:
    """Every attempt in the store has its handler's own note, unless its worker died before the handler began."""
    begun = [note.at for note in books.notes if note.word == "begin"]
    claimed = [(event.queue, event.id, event.attempt) for event in books.events if event.transition == "claim"]
    counted = sum(job.counters.attempts for job in books.jobs)
    silent = set(claimed) - set(begun)
    holds = (
        counted == len(claimed) == len(set(claimed)) == len(begun) + len(silent)
        and len(begun) == len(set(begun))
        and silent <= set(books.told.held)
    )
    told = f"{counted:,} attempts in the store = {len(begun):,} begun, by the handlers' notes"
    return Check("attempts", holds, told + f" + {len(silent)} killed before they began")


def _outcomes(books: Books) -> Check:
    """What the store says of the end of an attempt is what its handler wrote, unless its worker died in between."""
    held = set(books.told.held)
    written = {note.at: note.word for note in books.notes if note.word != "begin" and note.at not in held}
    stored = {
        (event.queue, event.id, event.attempt): ENDS[event.transition]
        for event in books.events
        if event.transition in ENDS
    }
    wrong = {at[:2] for at in written.keys() | stored.keys() if written.get(at) != stored.get(at)}
    raised = sum(word == "raise" for word in written.values())
    failures = sum(job.counters.failures for job in books.jobs)
    told = f"{len(stored):,} ends in the store, {len(wrong)} unlike the handler's own note{_some(wrong)}; "
    told += f"{failures} failures = {raised} raised"
    return Check("outcomes", not wrong and failures == raised, told)


def _stalls(books: Books) -> Check:
    held = Counter((queue, id) for queue, id, _ in books.told.held)
    stalled = {(job.queue, job.id): job.counters.stalls for job in books.jobs if job.counters.stalls}
    told = f"{sum(stalled.values())} stalls = {held.total()} jobs held by the worker that was killed"
    return Check("stalls", bool(held) and stalled == held, told)


def _recovered(books: Books) -> Check:
    held = {(queue, id) for queue, id, _ in books.told.held}
    elsewhere = {
        (event.queue, event.id)
        for event in books.events
        if event.transition in ("complete", "fail") and event.worker != books.told.killed
    }
    told = f"{len(held & elsewhere)} of its {len(held)} jobs were finished by other workers{_some(held - elsewhere)}"
    return Check("recovered", held <= elsewhere, told)


def _once(books: Books) -> Check:
    """A job completes once, and no handler begins after that."""
    completed = [(event.queue, event.id) for event in books.events if event.transition == "complete"]
    final = {
        (event.queue, event.id): event.attempt for event in books.events if event.transition in ("complete", "fail")
    }
    twice = {name for name, times in Counter(completed).items() if times > 1}
    late = {note.at[:2] for note in books.notes if note.attempt > final.get(note.at[:2], 0)}
    unlike = {job.id for job in books.jobs if job.state is State.COMPLETED} ^ {id for _, id in completed}
    told = f"{len(twice)} completed twice, {len(late)} begun again after their end{_some(twice | late)}"
    return Check("done once", not twice and not late and not unlike, told)


def _deduplicated(books: Books) -> Check:
    name = ("reports", books.told.report)
    asked = books.told.asked.count(name)
    ran = sum(note.word == "begin" and note.at[:2] == name for note in books.notes)
    told = f"{books.told.report} was enqueued {asked} times and ran {ran} {'time' if ran == 1 else 'times'}"
    return Check("deduplicated", asked > 1 and ran == 1, told)


def _money(books: Books) -> Check:
    orders = [job for job in books.jobs if job.queue == "orders" and job.result is not None]
    kept = sum(msgspec.json.decode(job.result or b"0", type=int) for job in orders)
    asked = books.told.cents
    return Check("money", kept == asked, f"{kept / 100:,.2f} in the results = {asked / 100:,.2f} in the files")


def _exits(books: Books) -> Check:
    exits = books.told.exits
    told = ", ".join(f"{name} exit {code}" for name, code in sorted(exits.items()))
    return Check("workers", bool(exits) and set(exits.values()) == {0}, f"stopped on SIGTERM: {told}")


def _some(names: set[Name]) -> str:
    shown = ", ".join("/".join(name) for name in sorted(names)[:3])
    return f" ({shown}{', …' if len(names) > 3 else ''})" if names else ""


CHECKS = (
    _enqueued, _accounted, _nothing_lost, _attempts, _outcomes, _stalls, _recovered, _once, _deduplicated, _money,
    _exits,
)  # fmt: skip
